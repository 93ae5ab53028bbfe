"""``kaiwo manifests`` renders a whole installation for the chosen plugins."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from kaiwo.client.doctor.rights import needed_rights
from kaiwo.host.settings import load
from kaiwo.testing import assert_golden

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""

GOLDEN = Path(__file__).parent / "golden"
ALL = (
    "batch_job,deployment,gpu_amd,gpu_nvidia,kueue,node_pools,ray_job,ray_service,storage_s3_gcs_azure_git_hf"
)
SETS = yaml.safe_load((GOLDEN / "rights-sets.yaml").read_text())
CLUSTER_SCOPED = {
    "clusterqueues.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "kaiwoconfigs.config.kaiwo.silogen.ai", "kaiwoqueueconfigs.kaiwo.silogen.ai", "namespaces", "nodes",
    "priorityclasses.scheduling.k8s.io", "resourceflavors.kueue.x-k8s.io", "storageclasses.storage.k8s.io",
    "topologies.kueue.x-k8s.io", "workloadpriorityclasses.kueue.x-k8s.io",
}  # fmt: skip
"""Kinds without namespaces among those that the operator uses."""

IMAGES = ("--image", "registry.example.com/kaiwo:1", "--scheduler-image", "registry.example.com/scheduler:1")


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # an installation is long; in Python it takes seconds


@cache
def documents(text: str) -> list[Any]:
    """All objects of a rendered text, to be read only."""
    return list(yaml.load_all(text, Loader=LOADER))


def find(text: str, kind: str, name: str) -> Any:
    """One object of a rendered text."""
    (found,) = [o for o in documents(text) if o["kind"] == kind and o["metadata"]["name"] == name]
    return found


def env_of(text: str) -> dict[str, Any]:
    """Environment of the rendered operator."""
    deployment = find(text, "Deployment", "kaiwo-operator")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def granted(text: str) -> set[str]:
    """Resources that the rendered operator may use."""
    rules = find(text, "ClusterRole", "kaiwo-operator.kaiwo-system")["rules"]
    return {resource for rule in rules for resource in rule["resources"]}


@pytest.mark.parametrize(("name", "plugins"), [("all", ALL), ("batch_job", "batch_job")])
def test_what_is_installed_is_reviewed_like_code(cli: Cli, name: str, plugins: str) -> None:
    """Roles, operator and scheduler of all plugins and of one, to the byte, reasons included."""
    result = cli("manifests", "rbac", "operator", "scheduler", "--plugins", plugins, *IMAGES)
    assert result.code == 0, result.err
    assert_golden(result.out, GOLDEN / f"install-{name}.yaml")


def test_everything_is_printed_unless_parts_are_named(cli: Cli) -> None:
    """The command of the documentation installs all there is; a part brings its namespace with it."""
    everything = cli("manifests", "--plugins", "batch_job").out
    assert cli("manifests", "all", "--plugins", "batch_job").out == everything
    parts = [cli("manifests", part, "--plugins", "batch_job").out for part in ("crds", "rbac", "operator")]
    assert {o["kind"] for o in documents(parts[0])} == {"CustomResourceDefinition"}
    for text in parts[1:]:
        assert documents(text)[0]["kind"] == "Namespace"
    for text in parts:
        assert all(obj in documents(everything) for obj in documents(text))
    identities = [
        (o["apiVersion"], o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"])
        for o in documents(everything)
    ]
    assert len(identities) == len(set(identities))


def test_definitions_and_the_namespace_come_before_what_needs_them(cli: Cli) -> None:
    """One ``kubectl apply`` of the whole text succeeds the first time."""
    kinds = [o["kind"] for o in documents(cli("manifests").out)]
    first = {kind: kinds.index(kind) for kind in kinds}
    assert first["CustomResourceDefinition"] < first["Namespace"] < first["ServiceAccount"]
    assert first["ServiceAccount"] < first["ClusterRoleBinding"] < first["Deployment"]


def test_the_operator_loads_exactly_the_plugins_it_was_rendered_for(cli: Cli) -> None:
    """Also where they come from the environment, and where there are none at all."""
    assert env_of(cli("manifests", "operator", "--plugins", "gpu_amd,batch_job").out)["KAIWO_PLUGINS"] == (
        "batch_job,gpu_amd"
    )
    assert env_of(cli("manifests", "operator", "--plugins", "").out)["KAIWO_PLUGINS"] == ""


def test_the_operator_imports_only_the_plugins_of_the_given_list(cli: Cli, tmp_path: Path) -> None:
    """The list that ``kaiwo plugins --allow-list`` prints goes into the Deployment as it is."""
    entries = ["batch_job@kaiwo-batch-job>=0.1,<2", f"gpu_amd@kaiwo-gpu-amd==0.1.0#sha256={'a' * 64}"]
    file = tmp_path / "allowed.yaml"
    file.write_text(yaml.safe_dump({"pluginsAllowed": entries}))
    arguments = ("manifests", "operator", "--plugins-allowed", str(file), "--plugins")
    assert env_of(cli(*arguments, "gpu_amd,batch_job").out)["KAIWO_PLUGINS_ALLOWED"] == " ".join(entries)
    assert "KAIWO_PLUGINS_ALLOWED" not in env_of(cli("manifests", "operator").out)
    lacking = cli(*arguments, "batch_job,kueue")
    assert lacking.code == 2
    assert "pluginsAllowed lacks kueue@kaiwo-kueue, which the operator is to load" in lacking.err


@pytest.mark.parametrize("text", ["", "plugins: [a]", "pluginsAllowed: 3", "pluginsAllowed: [a]", "a: ["])
def test_a_file_without_a_list_of_allowed_plugins_is_refused(cli: Cli, tmp_path: Path, text: str) -> None:
    """A mistake in the file does not render an operator without the list."""
    file = tmp_path / "allowed.yaml"
    file.write_text(text)
    found = cli("manifests", "operator", "--plugins", "batch_job", "--plugins-allowed", str(file))
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error: {file}")
    assert "kaiwo plugins --allow-list" in found.err


def test_the_environment_selects_plugins(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAIWO_PLUGINS and KAIWO_PLUGINS_DISABLED mean here what they mean for the operator."""
    monkeypatch.setenv("KAIWO_PLUGINS", "batch_job,gpu_amd")
    monkeypatch.setenv("KAIWO_PLUGINS_DISABLED", "gpu_amd")
    assert env_of(cli("manifests", "operator").out)["KAIWO_PLUGINS"] == "batch_job"


def test_no_role_has_a_wildcard_or_reads_secrets(cli: Cli) -> None:
    """The operator's token in wrong hands must not open the cluster."""
    roles = [o for o in documents(cli("manifests").out) if o["kind"] in ("Role", "ClusterRole")]
    names = {role["metadata"]["name"] for role in roles}
    assert names >= {"kaiwo-operator", "kaiwo-operator.kaiwo-system", "kaiwo-edit.kaiwo-system"}
    for role in roles:
        for rule in role["rules"]:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not any("*" in word for word in words), rule
            assert not any(resource.startswith("secrets") for resource in rule["resources"]), rule
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), rule


def test_every_rule_of_a_role_says_why(cli: Cli) -> None:
    """A reviewer reads the reason above each rule, and the plugin it is for."""
    text = cli("manifests", "rbac", "--plugins", "batch_job").out
    lines = text.splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("- apiGroups")]
    assert rules
    assert all(lines[i - 1].startswith("# ") for i in rules)
    assert "# batch_job: KaiwoJobs run as Jobs" in lines


def test_rights_follow_the_plugins(cli: Cli) -> None:
    """An operator without the Deployment plugin may not touch Deployments."""
    few = granted(cli("manifests", "rbac", "--plugins", "batch_job").out)
    more = granted(cli("manifests", "rbac", "--plugins", "batch_job,deployment").out)
    assert "jobs" in few
    assert more - few == {"deployments", "replicasets", "services"}
    assert {"kaiwojobs/finalizers", "kaiwoservices/finalizers"} <= few


def test_a_setting_that_is_off_drops_its_right(cli: Cli, home: Path) -> None:
    """With labelNamespaces: false in KaiwoConfig the operator may not patch namespaces."""
    config = {"kind": "KaiwoConfig", "spec": {"plugins": {"kueue": {"labelNamespaces": False}}}}
    file = home / "kaiwoconfig.yaml"
    file.write_text(yaml.safe_dump(config))
    without = cli("manifests", "rbac", "--plugins", "kueue", "--kaiwoconfig", str(file)).out
    assert "namespaces patch" in can_i(cli("manifests", "rbac", "--plugins", "kueue").out)
    assert "namespaces patch" not in can_i(without)
    assert "namespaces list" in can_i(without)
    assert "kaiwo-operator-labels" not in without


def can_i(text: str, role: str = "kaiwo-operator") -> list[str]:
    """What a rendered ClusterRole allows, one ``resource.group/subresource verb`` a line."""
    return sorted(allowed(find(text, "ClusterRole", f"{role}.kaiwo-system")))


def allowed(role: Any) -> list[str]:
    """What a role allows, one ``resource.group/subresource[=name] verb`` a line."""
    found = []
    for rule in role["rules"]:
        names = [f"={name}" for name in rule.get("resourceNames", ())] or [""]
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                plural, slash, subresource = resource.partition("/")
                place = f"{plural}.{group}" if group else plural
                found += [
                    f"{place}{slash}{subresource}{name} {verb}" for name in names for verb in rule["verbs"]
                ]
    return found


@pytest.mark.parametrize("name", SETS)
def test_what_each_role_allows_is_reviewed_like_code(cli: Cli, name: str) -> None:
    """The rights of operator and users; a real API server is asked for them, too.

    A line is ``ROLE[@NAMESPACE] RESOURCE[=NAME] VERB``.
    """
    lines = matrix(cli("manifests", "rbac", *SETS[name], *IMAGES).out)
    assert_golden("\n".join(sorted(lines)) + "\n", GOLDEN / f"rights-{name}.txt")


def matrix(text: str) -> set[str]:
    """What all rendered roles allow."""
    return {
        f"{label(role)} {line}"
        for role in documents(text)
        if role["kind"] in ("Role", "ClusterRole")
        for line in allowed(role)
    }


def label(role: Any) -> str:
    """A role as a golden file names it."""
    name, namespace = (
        role["metadata"]["name"].removesuffix(".kaiwo-system"),
        role["metadata"].get("namespace"),
    )
    return f"{name}@{namespace}" if namespace else name


def test_a_plugin_that_is_left_out_leaves_only_its_own_rights_out(cli: Cli) -> None:
    """Every line that goes without kueue and node_pools is one of theirs."""
    every, fewer = (
        matrix(cli("manifests", "rbac", *SETS[name], *IMAGES).out) for name in ("all", "without_kueue")
    )
    assert fewer < every
    of_the_host = {"customresourcedefinitions.apiextensions.k8s.io", "nodes", "pods"}
    for line in every - fewer:
        role, resource, verb = line.split()
        kind = resource.partition("/")[0]
        assert kind.endswith("kueue.x-k8s.io") or kind in (
            "kaiwoqueueconfigs.kaiwo.silogen.ai", "namespaces",
        ) or (role, kind, verb) == ("kaiwo-operator", "nodes", "patch"), line  # fmt: skip
    assert {f"kaiwo-operator {kind} get" for kind in of_the_host} <= fewer


def test_a_role_in_chosen_namespaces_takes_nothing_along(cli: Cli) -> None:
    """The same rights as for all namespaces, of which those to kinds with namespaces count in these alone."""
    everywhere, chosen = (
        matrix(cli("manifests", "rbac", *SETS[name], *IMAGES).out) for name in ("all", "namespaced")
    )
    cluster = {line for line in chosen if line.startswith("kaiwo-operator ")}
    assert cluster == {
        line for line in everywhere
        if line.startswith("kaiwo-operator ") and line.split()[1].partition("/")[0] in CLUSTER_SCOPED
    }  # fmt: skip
    for team in ("team-a", "team-b"):
        role = f"kaiwo-operator-workloads@{team} "
        within = {line.replace(role, "kaiwo-operator ") for line in chosen if line.startswith(role)}
        assert within | cluster == {line for line in everywhere if line.startswith("kaiwo-operator ")}
    assert not [line for line in chosen if line.startswith("kaiwo-operator-workloads ")]


def test_each_role_for_users_is_complete(cli: Cli) -> None:
    """Bound by itself, admin includes edit, edit includes view; reading roles change nothing."""
    text = cli("manifests", "rbac", "--plugins", ALL).out
    admin, edit, view = (set(can_i(text, f"kaiwo-{name}")) for name in ("admin", "edit", "view"))
    assert view < edit < admin
    for role in ("kaiwo-view", "kaiwo-cluster-view"):
        assert {line.split()[1] for line in can_i(text, role)} == {"get", "list", "watch"}
    assert "kaiwoqueueconfigs.kaiwo.silogen.ai patch" in can_i(text, "kaiwo-queue-admin")
    without_queues = cli("manifests", "rbac", "--plugins", "batch_job").out
    assert "kaiwo-queue-admin" not in without_queues


def test_the_roles_for_users_are_enough_for_the_command_line(cli: Cli) -> None:
    """Bound by itself, edit submits, shows and deletes; admin may also enter pods."""
    text = cli("manifests", "rbac", "--plugins", ALL).out
    admin, edit = (set(can_i(text, f"kaiwo-{name}")) for name in ("admin", "edit"))
    needed = {
        f"{right.resource}{'/' if right.subresource else ''}{right.subresource} {right.verb}": right.purpose
        for right in needed_rights()
    }
    assert set(needed) <= admin
    assert {needed[right] for right in needed if right not in edit} == {"exec", "port-forward"}


def test_the_namespaces_of_workloads_are_bounded_and_users_own(cli: Cli) -> None:
    """Their names are checked as written, each counts once, and the operator's own is none of them."""
    given = cli("manifests", "operator", "--watch-namespace", "b,a", "--watch-namespace", "c, a,").out
    assert env_of(given)["KAIWO_WATCH_NAMESPACE"] == "a,b,c"
    for value, problem in (
        ("team_a", '--watch-namespace: "team_a" may have at most 63 characters'),
        ("team-a team-b", '--watch-namespace: "team-a team-b" may have at most 63 characters'),
        ("", "--watch-namespace: expected names of namespaces, got none"),
        (" ,", "--watch-namespace: expected names of namespaces, got none"),
        ("a,kube-system", "the operator writes nothing to kube-system"),
        ("kaiwo-system", "the operator writes nothing to kaiwo-system"),
        (",".join(f"n{number}" for number in range(65)), "at most 64 namespaces"),
    ):
        result = cli("manifests", "rbac", "--watch-namespace", value)
        assert result.code == 2
        assert problem in result.err


def test_several_operators_share_rights_and_nothing_that_selects_pods(cli: Cli) -> None:
    """The main one comes with the rights of all; a further one is a Deployment that no selector mixes up."""
    main = documents(cli("manifests", "--shard", "main", "--network-policy", "--webhooks").out)
    other = documents(cli("manifests", "operator", "--shard", "a", "--network-policy").out)
    assert {o["kind"] for o in other} == {
        "Namespace", "PodDisruptionBudget", "Deployment", "NetworkPolicy",
    }  # fmt: skip
    made = [o for o in other if o["kind"] != "Namespace"]
    assert {o["metadata"]["name"] for o in made} == {"kaiwo-operator-a"}
    assert {o["metadata"]["labels"]["kaiwo.silogen.ai/shard"] for o in made} == {"a"}
    (pod,) = [o["spec"]["template"] for o in other if o["kind"] == "Deployment"]
    env = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
    assert (env["KAIWO_SHARD"], env["KAIWO_LEASE_NAME"]) == ("a", "kaiwo-operator")
    assert pod["spec"]["serviceAccountName"] == "kaiwo-operator"
    selectors = [
        spec.get("podSelector", spec.get("selector"))
        for o in main
        if o["kind"] in ("Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment")
        for spec in (o["spec"],)
    ]
    assert selectors
    for selector in selectors:
        assert not (selector.get("matchLabels", selector)).items() <= pod["metadata"]["labels"].items()
    (role,) = [o for o in main if o["kind"] == "Role" and o["metadata"]["name"] == "kaiwo-operator"]
    leases = next(rule for rule in role["rules"] if rule["resources"] == ["leases"])
    assert (leases["verbs"], leases.get("resourceNames")) == (["get", "list", "create", "update"], None)
    (cluster,) = [
        o for o in main if o["kind"] == "ClusterRole" and o["metadata"]["name"].startswith("kaiwo-op")
    ]
    assert any("namespaces" in rule["resources"] and "watch" in rule["verbs"] for rule in cluster["rules"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--shard", "a"), "all but the Deployment, and the webhooks, come with the shard main"),
        (
            ("operator", "--shard", "a", "--webhooks"),
            "kaiwo manifests operator --shard a, without --webhooks",
        ),
        (("--shard", "main", "--watch-namespace", "b"), "--shard and --watch-namespace exclude each other"),
        (("operator", "--shard", "A b"), "--shard: "),
    ],
)
def test_what_does_not_go_with_a_shard_is_refused(cli: Cli, options: tuple[str, ...], problem: str) -> None:
    """With what to write instead."""
    result = cli("manifests", *options)
    assert result.code == 2
    assert problem in result.err


def test_namespace_and_images_are_the_administrators(cli: Cli) -> None:
    """Every object and every reference is in the given namespace; -n before the command counts, too."""
    text = cli("manifests", "rbac", "operator", "scheduler", "--namespace", "ml-ops", *IMAGES).out
    namespaces = {o["metadata"].get("namespace") for o in documents(text)}
    assert namespaces == {None, "ml-ops", "kube-system"}
    subjects = {s["namespace"] for o in documents(text) for s in o.get("subjects", [])}
    assert subjects == {"ml-ops"}
    assert "kaiwo-system" not in text
    assert cli("-n", "ml-ops", "manifests", "rbac", "operator", "scheduler", *IMAGES).out == text
    images = [
        c["image"]
        for o in documents(text)
        if o["kind"] == "Deployment"
        for c in o["spec"]["template"]["spec"]["containers"]
    ]
    assert images == [IMAGES[1], IMAGES[3]]


def test_a_namespace_that_may_exist_gets_no_label_without_a_flag(cli: Cli) -> None:
    """Pod Security labels count for every pod in the namespace, also for those of others."""
    (plain,) = [o for o in documents(cli("manifests", "rbac").out) if o["kind"] == "Namespace"]
    assert plain == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kaiwo-system"}}
    text = cli("manifests", "rbac", "--pod-security").out
    (labelled,) = [o for o in documents(text) if o["kind"] == "Namespace"]
    assert labelled["metadata"]["labels"] == {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }


def test_two_installations_share_no_object(cli: Cli) -> None:
    """Roles, bindings and policies outside the namespace carry its name; none is overwritten."""
    one, other = (
        {
            (o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"])
            for o in documents(cli("manifests", "--namespace", name, "--watch-namespace", "team").out)
            if o["kind"] != "CustomResourceDefinition"
        }
        for name in ("one", "other")
    )
    assert one
    assert not one & other


def test_monitoring_selects_the_pods_of_the_operator(cli: Cli) -> None:
    """A PodMonitor that selects nothing, or a port that does not exist, would go unnoticed."""
    monitor, alerts, board = documents(cli("manifests", "monitoring", "--namespace", "ops").out)
    (operator,) = (
        each
        for each in documents(cli("manifests", "operator", "--namespace", "ops").out)
        if each["kind"] == "Deployment"
    )
    pods = operator["spec"]["template"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert wanted <= pods["metadata"]["labels"].items()
    ports = {port["name"] for port in pods["spec"]["containers"][0]["ports"]}
    assert {end["port"] for end in monitor["spec"]["podMetricsEndpoints"]} <= ports
    assert {each["metadata"]["namespace"] for each in (monitor, alerts, board)} == {"ops"}
    assert alerts["spec"]["groups"][0]["rules"]
    (text,) = board["data"].values()
    assert json.loads(text)["panels"]


def test_what_an_uninstallation_deletes_can_be_read(cli: Cli) -> None:
    """All that is installed but the namespace and the CRDs, and the programs' records; programs first."""
    options = ("--namespace", "ops", "--watch-namespace", "team", "--network-policy")
    removed = documents(cli("manifests", "uninstall", *options).out)
    installed = documents(cli("manifests", "rbac", "operator", "scheduler", *options).out)

    def identities(objects: list[Any]) -> set[tuple[str, Any, str]]:
        return {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects}

    assert identities(removed) - identities(installed) == {
        ("Lease", "ops", "kaiwo-operator"),
        ("Lease", "ops", "kaiwo-scheduler"),
        ("ConfigMap", "ops", "kaiwo-config-history"),
        ("ConfigMap", "ops", "kaiwo-gpu-time"),
    }
    assert identities(installed) - identities(removed) == {("Namespace", None, "ops")}
    assert {o["kind"] for o in removed[:2]} == {"Deployment"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("uninstall", "rbac"), "the part uninstall is printed alone"),
        (("monitoring", "operator"), "the part monitoring is printed alone"),
        (("--namespace", "Ops_1"), "--namespace: "),
        (("--image", "not an image"), "--image: expected the name of an image, got 'not an image'"),
        (("--scheduler-image", ""), "--scheduler-image: expected the name of an image, got ''"),
        (("operator", "--from-cluster"), "--from-cluster changes nothing of the part operator"),
        (("--priority-class", "High"), "--priority-class: "),
        (("--image-pull-secret", ""), "--image-pull-secret: "),
        (("--api-server-port", "443"), "--api-server-port needs --network-policy"),
        (("--monitoring-port", "9090"), "--monitoring-port needs --monitoring-endpoint"),
        (
            ("--monitoring-endpoint", "prometheus:9090"),
            "--monitoring-endpoint: 'prometheus:9090' is not an http",
        ),
        (("--monitoring-endpoint", "http://p:70000"), "--monitoring-endpoint: Port out of range"),
        (
            ("--monitoring-endpoint", "http://p", "--monitoring-interval", "30"),
            "--monitoring-interval: '30' is not a duration",
        ),
        (("--monitoring-token-file", "/t"), "--monitoring-token-file needs --monitoring-endpoint"),
        (
            ("--monitoring-endpoint", "http://p", "--monitoring-token-file", "/t"),
            "--monitoring-token-file needs an https:// endpoint",
        ),
        (
            ("--monitoring-endpoint", "https://p", "--monitoring-ca-file", "ca.crt"),
            "--monitoring-ca-file: expected an absolute path in the container, got 'ca.crt'",
        ),
        (("--mount-secret", "Notify"), "--mount-secret: "),
        (("--mount-secret", "certificates"), '--mount-secret: the name "certificates" is taken'),
        (("rbac", "--previous", __file__), "--previous needs the part crds"),
        (("rbac", "--kaiwoconfig", __file__), f"{__file__}:"),
    ],
)
def test_what_cannot_be_installed_is_refused(cli: Cli, args: tuple[str, ...], message: str) -> None:
    """Nothing is printed, so that nothing reaches kubectl, and the option is named."""
    result = cli("manifests", *args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")
    assert "hint:" in result.err


def test_an_unknown_part_is_reported_with_the_known_ones(cli: Cli) -> None:
    """A mistyped part prints nothing."""
    result = cli("manifests", "rbca")
    assert (result.code, result.out) == (2, "")
    assert "rbac" in result.err


def test_a_selected_plugin_that_is_missing_stops_the_rendering(cli: Cli) -> None:
    """An operator without its rights or fields would be installed otherwise."""
    result = cli("manifests", "--plugins", "batch_job,gpu_amdd")
    assert (result.code, result.out) == (1, "")
    assert "gpu_amdd" in result.err
    assert "kaiwo plugins" in result.err


def test_programs_read_the_same_objects_as_json(cli: Cli) -> None:
    """``-o json`` gives a List that kubectl takes; ``-o name`` names."""
    listed = json.loads(cli("manifests", "rbac", "-o", "json").out)
    assert listed["kind"] == "List"
    assert listed["items"] == documents(cli("manifests", "rbac").out)
    assert (
        "clusterrole.rbac.authorization.k8s.io/kaiwo-operator.kaiwo-system"
        in cli("manifests", "rbac", "-o", "name").out
    )


def test_help_shows_the_parts_and_the_command_to_install(cli: Cli) -> None:
    """An administrator finds the way without the documentation."""
    text = cli("manifests", "--help").out
    assert "kubectl apply --server-side -f -" in text
    assert "scheduler" in text


def test_one_pod_of_each_program_survives_the_drain_of_a_node(cli: Cli) -> None:
    """Two pods on different nodes, in different zones, with a high priority; a drain ends one at a time."""
    text = cli("manifests", "operator", "scheduler", "--plugins", "batch_job").out
    for name in ("kaiwo-operator", "kaiwo-scheduler"):
        spec = find(text, "Deployment", name)["spec"]
        pod = spec["template"]["spec"]
        selector = {"matchLabels": {"app.kubernetes.io/name": name}}
        (wishes,) = pod["affinity"]["podAntiAffinity"].values()
        assert [(wish["weight"], wish["podAffinityTerm"]) for wish in wishes] == [
            (100, {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}),
            (50, {"labelSelector": selector, "topologyKey": "topology.kubernetes.io/zone"}),
        ]
        assert (spec["replicas"], pod["priorityClassName"]) == (2, "system-cluster-critical")
        budget = find(text, "PodDisruptionBudget", name)["spec"]
        assert budget == {"maxUnavailable": 1, "selector": selector}
    alone = cli("manifests", "operator", "--plugins", "batch_job", "--replicas", "1").out
    assert find(alone, "Deployment", "kaiwo-operator")["spec"]["replicas"] == 1


def test_monitoring_is_set_up_with_its_endpoint_and_its_way_out(cli: Cli) -> None:
    """The operator's policy lets it reach the endpoint; nothing of it is there without the option."""
    options = ("manifests", "operator", "scheduler", "--network-policy")
    endpoint = ("--monitoring-endpoint", "http://prometheus:9091", "--monitoring-interval", "1m")
    text = cli(*options, *endpoint).out
    (container,) = find(text, "Deployment", "kaiwo-operator")["spec"]["template"]["spec"]["containers"]
    found = {item["name"]: item.get("value") for item in container["env"]}
    assert (
        found.items()
        >= {
            "RESOURCE_MONITORING_ENABLED": "true",
            "RESOURCE_MONITORING_METRICS_ENDPOINT": "http://prometheus:9091",
            "RESOURCE_MONITORING_POLLING_INTERVAL": "1m",
        }.items()
    )
    egress = find(text, "NetworkPolicy", "kaiwo-operator")["spec"]["egress"]
    assert [port["port"] for port in egress[-1]["ports"]] == [9091]
    assert len(find(text, "NetworkPolicy", "kaiwo-scheduler")["spec"]["egress"]) == 2
    assert "RESOURCE_MONITORING" not in cli(*options).out


def test_secrets_are_mounted_by_their_names_and_hold_up_no_operator(cli: Cli) -> None:
    """Token and CA of the metrics endpoint and the secrets of plugins come the same way."""
    text = cli(
        "manifests", "operator", "scheduler", "--webhooks", "--webhook-certificates", "tls",
        "--mount-secret", "notify", "--mount-secret", "thanos", "--mount-secret", "notify",
        "--monitoring-endpoint", "https://thanos:9091",
        "--monitoring-token-file", "/etc/kaiwo/thanos/token",
        "--monitoring-ca-file", "/etc/kaiwo/thanos/ca.crt",
    ).out  # fmt: skip
    pod = find(text, "Deployment", "kaiwo-operator")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounted = {mount["name"]: (mount["mountPath"], mount["readOnly"]) for mount in container["volumeMounts"]}
    assert mounted == {
        "certificates": ("/certificates", True),
        "notify": ("/etc/kaiwo/notify", True),
        "thanos": ("/etc/kaiwo/thanos", True),
    }
    assert pod["volumes"] == [
        {"name": "certificates", "secret": {"secretName": "tls"}},
        {"name": "notify", "secret": {"secretName": "notify", "optional": True}},
        {"name": "thanos", "secret": {"secretName": "thanos", "optional": True}},
    ]
    environ = {item["name"]: item.get("value") for item in container["env"]}
    settings = load(environ={name: value for name, value in environ.items() if value})
    assert settings.resource_monitoring_token_file == Path("/etc/kaiwo/thanos/token")
    assert settings.resource_monitoring_ca_file == Path("/etc/kaiwo/thanos/ca.crt")
    assert "thanos" not in str(find(text, "Deployment", "kaiwo-scheduler"))


def test_network_policies_follow_the_ports_of_the_programs(cli: Cli) -> None:
    """In to the ports of the containers, out to the API server and DNS; none without the option."""
    text = cli("manifests", "operator", "scheduler", "--network-policy", "--api-server-port", "16443").out
    for name in ("kaiwo-operator", "kaiwo-scheduler"):
        deployment, policy = (find(text, kind, name)["spec"] for kind in ("Deployment", "NetworkPolicy"))
        (container,) = deployment["template"]["spec"]["containers"]
        (inward,) = policy["ingress"]
        assert [port["port"] for port in inward["ports"]] == [p["containerPort"] for p in container["ports"]]
        api_server, dns = ([port["port"] for port in rule["ports"]] for rule in policy["egress"])
        assert (api_server, dns) == ([16443], [53, 53])
        assert policy["podSelector"] == deployment["selector"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
    both = cli("manifests", "operator", "--network-policy").out
    assert [
        p["port"] for p in find(both, "NetworkPolicy", "kaiwo-operator")["spec"]["egress"][0]["ports"]
    ] == [
        443,
        6443,
    ]
    assert "NetworkPolicy" not in cli("manifests").out


def test_pods_have_the_chosen_priority_and_pull_secrets(cli: Cli) -> None:
    """A quota may forbid system-cluster-critical; an apply refuses a pull secret that is listed twice."""
    parts = ("manifests", "operator", "scheduler")
    secrets = [part for name in ("a", "b", "a") for part in ("--image-pull-secret", name)]
    text = cli(*parts, "--priority-class", "high", *secrets).out
    without = cli(*parts, "--priority-class", "").out
    for name in ("kaiwo-operator", "kaiwo-scheduler"):
        pod = find(text, "Deployment", name)["spec"]["template"]["spec"]
        assert pod["priorityClassName"] == "high"
        assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
        assert "priorityClassName" not in find(without, "Deployment", name)["spec"]["template"]["spec"]


def test_requests_leave_room_above_what_was_measured(cli: Cli) -> None:
    """bench/README.md has the peak memory and the CPU of a job; a change of these figures is seen here."""
    bench = (Path(__file__).parents[2] / "bench" / "README.md").read_text()

    def figure(row: str) -> float:
        (line,) = [line for line in bench.splitlines() if line.startswith(f"| {row} |")]
        return float(line.split("|")[2].split()[0])

    container = find(cli("manifests", "operator").out, "Deployment", "kaiwo-operator")["spec"]["template"][
        "spec"
    ]["containers"][0]
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    usual = figure("10,000 live, half of them finished: peak memory")
    assert usual * 2 <= int(requests["memory"].removesuffix("Mi"))
    most = figure("50,000 live: peak memory")
    assert most * 2 <= int(limits["memory"].removesuffix("Gi")) * 1024
    # 100m of CPU: 45 new jobs a second without Kueue.
    assert int(requests["cpu"].removesuffix("m")) / figure("fan-out of 5,000: CPU per job") >= 30
    assert "cpu" not in limits
