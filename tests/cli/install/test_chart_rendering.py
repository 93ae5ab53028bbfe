"""The Helm chart renders what ``kaiwo manifests`` renders for the same choices."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from charts.generate.__main__ import CHART
from charts.generate.chart import semantic
from charts.generate.switches import plugin_names
from charts.generate.values import values
from kaiwo.api.crd_versions import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""

pytestmark = pytest.mark.slow

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PARTS = ("crds", "rbac", "operator", "scheduler")
CHART_LABELS = {
    "app.kubernetes.io/managed-by": "Helm",
    "helm.sh/chart": f"kaiwo-{semantic(version('kaiwo'))}",
}
ALL = plugin_names()


@dataclass(frozen=True)
class Choices:
    """What an administrator chooses, for both ways of installing."""

    plugins: tuple[str, ...] = ALL
    parts: tuple[str, ...] = PARTS[1:]
    namespace: str = "ml-system"
    image: str = "registry.example.com/kaiwo:1"
    scheduler_image: str = "registry.example.com:5000/kube-scheduler@sha256:0123"
    replicas: int = 2
    watch: tuple[str, ...] = ()
    restrict: tuple[str, ...] = ()
    settings: dict[str, dict[str, bool]] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    priority_class: str = "system-cluster-critical"
    pull_secrets: tuple[str, ...] = ()
    webhooks: bool = False
    enforce: bool = False
    identity: str = "off"
    certificates: str = ""
    allowed: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    endpoint: str = ""
    token_file: str = ""
    ca_file: str = ""
    endpoint_port: int = 0

    def values(self) -> Object:
        """The values of the chart."""
        return {
            "plugins": list(self.plugins),
            "image": self.image,
            "schedulerImage": self.scheduler_image,
            "replicas": self.replicas,
            "watchNamespaces": list(self.watch),
            "restrict": list(self.restrict),
            "kaiwoConfig": {"plugins": self.settings} if self.settings else {},
            "networkPolicy": {"enabled": True, "apiServerPorts": list(self.ports)} if self.ports else {},
            "webhooks": {
                "enabled": self.webhooks,
                "enforceGpuWorkloads": self.enforce,
                "certificateSecret": self.certificates,
            },
            "identity": self.identity,
            "priorityClassName": self.priority_class,
            "imagePullSecrets": list(self.pull_secrets),
            "pluginsAllowed": list(self.allowed),
            "secretMounts": list(self.secrets),
            "monitoring": {
                "endpoint": self.endpoint,
                "port": self.endpoint_port,
                "tokenFile": self.token_file,
                "caFile": self.ca_file,
            },
            **{part: {"enabled": part in self.parts} for part in PARTS},
        }

    def options(self) -> list[str]:
        """The options of ``kaiwo manifests`` but for plugins and settings."""
        found = ["--namespace", self.namespace, "--image", self.image, "--replicas", str(self.replicas)]
        found += ["--scheduler-image", self.scheduler_image]
        for name in self.watch:
            found += ["--watch-namespace", name]
        for name in self.restrict:
            found += ["--restrict", name]
        for name in self.pull_secrets:
            found += ["--image-pull-secret", name]
        for name in self.secrets:
            found += ["--mount-secret", name]
        found += ["--monitoring-endpoint", self.endpoint] if self.endpoint else []
        found += ["--monitoring-port", str(self.endpoint_port)] if self.endpoint_port else []
        found += ["--monitoring-token-file", self.token_file] if self.token_file else []
        found += ["--monitoring-ca-file", self.ca_file] if self.ca_file else []
        found += ["--identity", self.identity]
        found += ["--webhook-certificates", self.certificates] if self.certificates else []
        found += ["--enforce-gpu-workloads"] if self.enforce else []
        found += ["--webhooks"] if self.webhooks else []
        for port in self.ports:
            found += ["--api-server-port", str(port)]
        found += ["--priority-class", self.priority_class, *(["--network-policy"] if self.ports else [])]
        return found


def by_identity(objects: list[Object]) -> dict[tuple[str, ...], Object]:
    """Objects by kind, namespace and name; none occurs twice."""
    found = {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in objects}
    assert len(found) == len(objects)
    return found


def rights(role: Object) -> set[tuple[str, ...]]:
    """What a role allows, whatever rules it is written in."""
    return {
        (group, resource, name, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def comparable(obj: Object) -> Object:
    """An object without the documented differences between the two."""
    kept: Object = json.loads(json.dumps(obj))
    labels = kept["metadata"].get("labels", {})
    for name in CHART_LABELS:
        labels.pop(name, None)
    if kept["kind"] == "CustomResourceDefinition":
        kept["metadata"].pop("labels", None)
        kept["metadata"]["annotations"].pop("helm.sh/resource-policy", None)
    if "rules" in kept:
        kept["rules"] = sorted(rights(kept))
    return kept


def rendered_by_helm(helm: Path, chart: Path, choices: Choices, directory: Path) -> list[Object]:
    """The objects of the chart."""
    values = directory / "values.yaml"
    values.write_text(yaml.safe_dump(choices.values()))
    command = [helm, "template", "any", chart, "--namespace", choices.namespace, "--values", values]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.load_all(done.stdout, Loader=LOADER) if obj]


def rendered_by_kaiwo(cli: Cli, choices: Choices, directory: Path) -> list[Object]:
    """The objects of ``kaiwo manifests``, the Namespace left out."""
    config = directory / "kaiwoconfig.yaml"
    config.write_text(yaml.safe_dump({"kind": "KaiwoConfig", "spec": {"plugins": choices.settings}}))
    allowed = directory / "allowed.yaml"
    found: list[Object] = []
    # The chart always has the fields of all plugins.
    for parts, plugins in (
        ([part for part in choices.parts if part == "crds"], ALL),
        ([part for part in choices.parts if part != "crds"], choices.plugins),
    ):
        if parts:
            options = [*choices.options(), "--kaiwoconfig", str(config)]
            if choices.allowed and "operator" in parts:
                allowed.write_text(yaml.safe_dump({"pluginsAllowed": list(choices.allowed)}))
                options += ["--plugins-allowed", str(allowed)]
            done = cli("manifests", *parts, "--plugins", ",".join(plugins), *options)
            assert done.code == 0, done.err
            found += yaml.load_all(done.out, Loader=LOADER)
    return [obj for obj in found if obj["kind"] != "Namespace"]


@pytest.fixture
def same(cli: Cli, helm: Path, tmp_path: Path) -> Callable[[Choices], dict[tuple[str, ...], Object]]:
    """Compare both renderings of some choices; gives those of the chart."""

    def compare(choices: Choices) -> dict[tuple[str, ...], Object]:
        of_helm = by_identity(rendered_by_helm(helm, CHART, choices, tmp_path))
        of_kaiwo = by_identity(rendered_by_kaiwo(cli, choices, tmp_path))
        assert sorted(of_helm) == sorted(of_kaiwo)
        for identity, obj in of_helm.items():
            assert comparable(obj) == comparable(of_kaiwo[identity]), identity
            assert CHART_LABELS.items() <= obj["metadata"]["labels"].items(), identity
        return of_helm

    return compare


TABLE = {
    "everything": Choices(parts=PARTS),
    "no plugin": Choices(plugins=()),
    **{f"only {name}": Choices(plugins=(name,)) for name in ALL},
    **{f"part {part}": Choices(parts=(part,)) for part in PARTS},
    "plugins in another order": Choices(plugins=("kueue", "batch_job")),
    "one watched namespace": Choices(watch=("team",)),
    "several watched namespaces": Choices(watch=("team", "a", "other"), plugins=("batch_job", "deployment")),
    "restrictions": Choices(restrict=("queues", "users", "priority-classes", "dangerous")),
    "a setting that is off": Choices(settings={"kueue": {"labelNamespaces": False}}),
    "a namespace that looks like a number": Choices(namespace="123", parts=("rbac", "operator")),
    "one pod": Choices(replicas=1),
    "network policies": Choices(ports=(443, 16443)),
    "webhooks": Choices(webhooks=True),
    "webhooks in watched namespaces": Choices(webhooks=True, enforce=True, watch=("b", "a")),
    "webhooks with all choices": Choices(
        webhooks=True, enforce=True, identity="set", certificates="given.example", ports=(443,)
    ),
    **{
        f"webhooks of {plugins}": Choices(webhooks=True, enforce=True, identity="check", plugins=plugins)
        for plugins in ((), ("gpu_amd",), ("gpu_nvidia",), ("kueue", "batch_job"))
    },
    "pull secrets": Choices(pull_secrets=("one", "other.example")),
    "no priority class": Choices(priority_class=""),
    "a list of allowed plugins": Choices(
        plugins=("batch_job",), allowed=("batch_job@kaiwo-batch-job>=0.1,<2", f"acme@x==1#sha256={'a' * 64}")
    ),
    "another priority class": Choices(priority_class="high"),
    "mounted secrets": Choices(secrets=("notify", "thanos"), parts=("operator", "scheduler")),
    "mounted secrets beside certificates": Choices(
        webhooks=True, certificates="tls", secrets=("notify",), parts=("operator",)
    ),
    "a metrics endpoint": Choices(endpoint="http://prometheus:9090", parts=("operator",)),
    **{
        f"a metrics endpoint {endpoint} in a network policy": Choices(
            endpoint=endpoint, ports=(443,), parts=("operator",), endpoint_port=port
        )
        for endpoint, port in (
            ("http://prometheus", 0),
            ("https://thanos.example:10902/path?q=1:2", 0),
            ("http://[fd00::1]:9100", 0),
            ("http://[fd00::9]", 0),
            ("http://user:1234@exporter.gpu/metrics", 0),
            ("http://exporter.gpu:80", 5000),
        )
    },
    "a metrics endpoint with a token": Choices(
        endpoint="https://thanos:9091",
        parts=("operator",),
        secrets=("thanos",),
        token_file="/etc/kaiwo/thanos/token",
        ca_file="/etc/kaiwo/thanos/ca.crt",
    ),
}


@pytest.mark.parametrize("choices", TABLE.values(), ids=TABLE)
def test_both_ways_install_the_same(same: Callable[[Choices], Any], choices: Choices) -> None:
    """Object by object; only what the README of the chart names is different."""
    assert same(choices) or not choices.parts


WEBHOOKS = st.fixed_dictionaries(
    {
        "webhooks": st.just(True),  # noqa: FBT003
        "enforce": st.booleans(),
        "identity": st.sampled_from(["off", "set", "check"]),
        "certificates": st.sampled_from(["", "given"]),
    }
)


@settings(max_examples=20)
@given(
    webhooks=st.just({}) | WEBHOOKS,
    choices=st.builds(
        Choices,
        plugins=st.sets(st.sampled_from(ALL)).map(lambda names: tuple(sorted(names))),
        parts=st.sets(st.sampled_from(PARTS[1:]), min_size=1).map(lambda parts: tuple(sorted(parts))),
        namespace=st.sampled_from(["kaiwo-system", "a", "x-1"]),
        replicas=st.integers(1, 9),
        watch=st.lists(st.sampled_from(["team", "other", "b"]), unique=True).map(tuple),
        restrict=st.sets(st.sampled_from(["queues", "users", "priority-classes", "dangerous"])).map(
            lambda names: tuple(sorted(names))
        ),
        settings=st.sampled_from([{}, {"kueue": {"labelNamespaces": False}}]),
        ports=st.sets(st.sampled_from([443, 6443])).map(lambda ports: tuple(sorted(ports))),
        priority_class=st.sampled_from(["", "high"]),
        pull_secrets=st.sets(st.sampled_from(["one", "other"])).map(lambda names: tuple(sorted(names))),
    ),
)
def test_both_ways_install_the_same_for_random_choices(
    same: Callable[[Choices], Any], choices: Choices, webhooks: dict[str, Any]
) -> None:
    """Conditions in the templates hold for choices that nobody listed."""
    same(replace(choices, **webhooks))


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("plugins={batch_jbo}", "/plugins/0"),
        ("replicas=0", "/replicas"),
        ("replicas=two", "/replicas"),
        ("image=not an image", "/image"),
        ("watchNamespaces={Team_1}", "/watchNamespaces/0"),
        ("watchNamespaces={team,kube-system}", "/watchNamespaces/1"),
        ("watchNamespaces={team,default}", "the operator writes nothing to its own namespace"),
        ("restrict={queue}", "/restrict/0"),
        ("identity=other", "/identity"),
        ("imagePullSecrets={Registry}", "/imagePullSecrets/0"),
        ("priorityClassName=High_1", "/priorityClassName"),
        ("webhooks.certificateSecret=-", "/webhooks/certificateSecret"),
        (
            "plugins={batch_job,deployment},pluginsAllowed={deployment@kaiwo-deployment}",
            "pluginsAllowed lacks batch_job, which is in plugins",
        ),
        ("identity=set", "identity needs webhooks.enabled: true"),
        ("webhooks.enforceGpuWorkloads=true", "webhooks.enforceGpuWorkloads needs webhooks.enabled: true"),
        ("webhooks.certificateSecret=a", "webhooks.certificateSecret needs webhooks.enabled: true"),
        ("networkPolicy.apiServerPorts={https}", "/networkPolicy/apiServerPorts/0"),
        ("crds.enabled=maybe", "/crds/enabled"),
        ("secretMounts={Notify}", "/secretMounts/0"),
        ("secretMounts={certificates}", "/secretMounts/0"),
        ("monitoring.tokenFile=token", "/monitoring/tokenFile"),
        ("monitoring.caFile=/ca.crt", "need an https:// URL in monitoring.endpoint"),
        ("monitoring.endpoint=http://prometheus:90900", "expected a port from 1 to 65535"),
        ("monitoring.endpoint=http://prometheus:0", "expected a port from 1 to 65535"),
        ("monitoring.port=65536", "/monitoring/port"),
        ("monitoring.interval=0s", "/monitoring/interval"),
        ("operator.resource=1", "'resource' not allowed"),
        ("plugin={batch_job}", "'plugin' not allowed"),
        ("kaiwoConfig.plugins.kueue.labelNamespaces=1", "/kaiwoConfig/plugins/kueue/labelNamespaces"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(helm: Path, option: str, field: str) -> None:
    """A misspelt value would otherwise be ignored, and something else installed."""
    done = subprocess.run(
        [helm, "template", "any", CHART, "--set", option], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert field in done.stderr


@pytest.mark.parametrize("value", [value.path for value in values({"operator": {}, "scheduler": {}})])
def test_a_value_that_is_set_to_nothing_is_refused_by_its_name(helm: Path, value: str) -> None:
    """Helm removes the default then: a policy without ports would allow all, an image would have no name."""
    options = {"networkPolicy.enabled=true", "webhooks.enabled=true", f"{value}=null"}
    if value in ("networkPolicy.enabled", "webhooks.enabled"):
        options.remove(f"{value}=true")
    done = subprocess.run(
        [helm, "template", "any", CHART, "--set", ",".join(sorted(options))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    where, _, name = value.rpartition(".")
    assert f"- at '{'/' if where else ''}{where}': missing property '{name}'" in done.stderr


def test_pods_run_where_the_values_say(helm: Path) -> None:
    """What kaiwo manifests leaves to kustomize, values of the chart set at both programs."""
    wanted: Object = {
        "nodeSelector": {"role": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
    }
    command: list[Any] = [helm, "template", "any", CHART]
    for name, value in wanted.items():
        command += ["--set-json", f"{name}={json.dumps(value)}"]
    resources = {"requests": {"cpu": "1"}}
    command += ["--set-json", f"operator={json.dumps({'resources': resources})}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pods = {
        obj["metadata"]["name"]: obj["spec"]["template"]["spec"]
        for obj in yaml.safe_load_all(text)
        if obj and obj["kind"] == "Deployment"
    }
    assert sorted(pods) == ["kaiwo-operator", "kaiwo-scheduler"]
    for pod in pods.values():
        assert {name: pod[name] for name in wanted} == wanted
    assert pods["kaiwo-operator"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "320Mi"}


def test_definitions_stay_when_the_release_is_removed(helm: Path) -> None:
    """With a CRD all its objects would go, the workloads of all users."""
    text = subprocess.run([helm, "template", "any", CHART], capture_output=True, text=True, check=True).stdout
    crds = [o for o in yaml.load_all(text, Loader=LOADER) if o and o["kind"] == "CustomResourceDefinition"]
    assert {crd["spec"]["names"]["kind"] for crd in crds} == {
        "AIMNamespaceConfig", "GpuWorkload", "KaiwoConfig", "KaiwoJob", "KaiwoQueueConfig", "KaiwoService"
    }  # fmt: skip
    assert {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in crds} == {"keep"}


@pytest.mark.parametrize(
    ("own", "live", "refused"),
    [
        ("0.2.0", "0.2.0", False),
        ("0.2.0", "0.1.9", False),
        ("0.2.0", "0.10.0", True),
        ("0.2.0", "0.2.0rc1", False),
        ("0.1.0", "0.2.0rc1", True),
        ("0.2.0rc1", "0.2.0rc2", True),
        ("0.2.0rc2", "0.2.0b10", False),
        ("0.2.0rc1", "0.2.0", True),
        ("0.2.0", "", False),
        ("0.2.0", "somebody's", False),
    ],
)
def test_definitions_of_a_later_version_are_not_replaced(
    helm: Path, tmp_path: Path, own: str, live: str, refused: bool
) -> None:
    """Also where one of both is a release candidate, whose chart Helm takes by its version."""
    chart = tmp_path / "kaiwo"
    shutil.copytree(CHART, chart)
    head = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump(head | {"version": semantic(own), "appVersion": own}))
    checks = chart / "templates" / "checks.yaml"
    question = 'lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name'
    answer = f'dict "metadata" (dict "annotations" (dict "{VERSION}" "{live}"))'
    assert question in checks.read_text()
    checks.write_text(checks.read_text().replace(question, answer))
    done = subprocess.run([helm, "template", "any", chart], capture_output=True, text=True, check=False)
    assert (done.returncode, f"is of Kaiwo {live}, later than {own};" in done.stderr) == (refused, refused)


def test_the_chart_has_no_warning(helm: Path) -> None:
    """Strict linting takes warnings for errors."""
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout


def test_the_package_is_reproducible(helm: Path, tmp_path: Path) -> None:
    """Two packages of the same chart have the same files with the same content, in the same order."""
    members = []
    for name in ("one", "other"):
        command = [helm, "package", CHART, "--destination", tmp_path / name]
        subprocess.run(command, capture_output=True, check=True)
        (archive,) = (tmp_path / name).glob("*.tgz")
        assert archive.name == f"kaiwo-{semantic(version('kaiwo'))}.tgz"
        with tarfile.open(archive) as opened:
            members.append([(m.name, m.mode, opened.extractfile(m).read()) for m in opened])  # type: ignore[union-attr]  # files only
    assert members[0] == members[1]
