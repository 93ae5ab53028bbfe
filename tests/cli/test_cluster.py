"""submit, list, status, delete and plan against a real API server."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from kaiwo.client.kinds import KAIWO_JOB

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


pytestmark = pytest.mark.cluster

HEAD = "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoJob\nmetadata:\n  name: {name}\n"


def write(name: str = "train", spec: str = "spec:\n  gpus: 1\n", path: str = "job.yaml") -> str:
    """A manifest in the working directory; returns its path."""
    Path(path).write_text(HEAD.format(name=name) + spec)
    return path


def live(control_plane: Sandbox, namespace: str, name: str = "train") -> dict[str, Any]:
    """The stored object."""
    found = control_plane.api.get(KAIWO_JOB.path(namespace, name))
    assert isinstance(found, dict)
    return found


def report(control_plane: Sandbox, namespace: str, status: dict[str, Any], name: str = "train") -> None:
    """Write a status as an operator would."""
    patch = {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    }
    path = KAIWO_JOB.path(namespace, name, "status")
    control_plane.api.request(
        "PATCH", f"{path}?fieldManager=test&force=true", patch, content_type="application/apply-patch+yaml"
    )


def test_submit_creates_then_changes_then_leaves_alone(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """Sending a manifest again makes the object what the manifest says, removed fields included."""
    first = here("submit", "-f", write(spec="spec:\n  gpus: 1\n  image: a\n  env: [{name: A, value: b}]\n"))
    assert first.code == 0, first.err
    assert first.err == f"job/train created in namespace {namespace}\n"
    assert first.out == ""
    again = here("submit", "-f", "job.yaml")
    assert again.err == f"job/train unchanged in namespace {namespace}\n"
    changed = here("submit", "-f", write(spec="spec:\n  gpus: 2\n  image: a\n"))
    assert changed.err == f"job/train configured in namespace {namespace}\n"
    spec = live(control_plane, namespace)["spec"]
    assert spec["gpus"] == 2
    assert "env" not in spec


def test_submit_takes_fields_from_other_clients(here: Cli, control_plane: Sandbox, namespace: str) -> None:
    """What somebody changed with another tool is set back to what the manifest says."""
    here("submit", "-f", write(spec="spec:\n  image: a\n"))
    path = KAIWO_JOB.path(namespace, "train") + "?fieldManager=editor"
    control_plane.api.request(
        "PATCH", path, {"spec": {"image": "b"}}, content_type="application/merge-patch+json"
    )
    assert here("submit", "-f", "job.yaml").code == 0
    assert live(control_plane, namespace)["spec"]["image"] == "a"


def test_nothing_is_sent_when_the_server_refuses_one_document(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """The refusal is shown at its line, and the other documents are not half sent."""
    here("submit", "-f", write("old", "spec:\n  ray: false\n"))
    Path("two.yaml").write_text(
        HEAD.format(name="new") + "---\n" + HEAD.format(name="old") + "spec:\n  ray: true\n"
    )
    result = here("submit", "-f", "two.yaml")
    assert result.code == 2
    warning, first, last = result.err.splitlines()
    assert warning == "warning: job/old: spec.entrypoint is empty: Ray has nothing to run"
    assert first.startswith("two.yaml:")
    assert "ray" in first
    assert "is immutable: delete the workload and create it anew" in first
    assert last == "error: 1 problem; nothing was sent"
    names = [job["metadata"]["name"] for job in control_plane.api.get(KAIWO_JOB.path(namespace))["items"]]
    assert names == ["old"]


def test_a_dry_run_is_checked_by_the_server_and_changes_nothing(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """It says what would happen, and shows the object with the server's defaults."""
    result = here("submit", "-f", write(), "--dry-run", "-o", "json")
    assert result.err == f"job/train created in namespace {namespace} (dry run)\n"
    assert json.loads(result.out)["spec"]["gpuVendor"] == "amd"
    assert control_plane.api.get(KAIWO_JOB.path(namespace))["items"] == []


@pytest.mark.parametrize("command", ["submit", "plan"])
def test_a_missing_namespace_is_reported_with_the_way_to_make_it(here: Cli, command: str) -> None:
    """Not with the API server's 404 alone."""
    result = here(command, "-f", write(), "-n", "there-is-no-such-namespace")
    assert result.code == 3
    assert 'namespace "there-is-no-such-namespace" not found' in result.err
    assert "kubectl create namespace there-is-no-such-namespace" in result.err


@pytest.mark.parametrize("command", [("report",), ("run", "--no-sync", "--", "true")])
def test_a_missing_namespace_is_exit_3_of_every_command(here: Cli, command: tuple[str, ...]) -> None:
    """A report of a misspelt namespace is not an empty one."""
    result = here("-n", "there-is-none", *command)
    assert result.code == 3
    assert 'error: namespace "there-is-none" not found\nhint: kubectl get namespaces\n' in result.err


def test_a_finished_job_that_is_sent_again_says_that_it_never_runs_again(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """Nobody should wait for a run that will not come."""
    here("submit", "-f", write())
    report(control_plane, namespace, {"status": "COMPLETE"})
    result = here("submit", "-f", "job.yaml")
    assert "job/train unchanged" in result.err
    assert "(COMPLETE; it does not run again. Use another name, or --replace)" in result.err


def test_wait_ends_when_the_job_ends(here: Cli, control_plane: Sandbox, namespace: str) -> None:
    """Exit code 0 for COMPLETE, 1 for FAILED with the reason, 4 when the time is over."""
    write()
    late = here("submit", "-f", "job.yaml", "--wait", "--timeout", "1s")
    assert late.code == 4
    assert "timed out waiting for job/train (not yet observed by an operator)" in late.err
    report(control_plane, namespace, {"status": "FAILED", "reason": "ExitCode", "message": "exit code 3"})
    failed = here("submit", "-f", "job.yaml", "--wait", "--timeout", "20s")
    assert failed.code == 1
    assert "job/train is FAILED: exit code 3" in failed.err
    report(control_plane, namespace, {"status": "RUNNING"})
    timer = threading.Timer(1.5, report, (control_plane, namespace, {"status": "COMPLETE"}))
    timer.start()
    try:
        done = here("submit", "-f", "job.yaml", "--wait", "--timeout", "20s")
    finally:
        timer.join()
    assert done.code == 0
    assert [line for line in done.err.splitlines() if "train RUNNING" in line or "train COMPLETE" in line]


def test_wait_reports_a_workload_that_was_deleted(here: Cli, control_plane: Sandbox, namespace: str) -> None:
    """It would never end."""
    write()
    timer = threading.Timer(1.5, control_plane.api.request, ("DELETE", KAIWO_JOB.path(namespace, "train")))
    timer.start()
    try:
        result = here("submit", "-f", "job.yaml", "--wait", "--timeout", "30s")
    finally:
        timer.join()
    assert result.code == 1
    assert "job/train was deleted" in result.err


def test_list_shows_ones_own_first(here: Cli, control_plane: Sandbox, namespace: str) -> None:
    """The user of kaiwoconfig.yaml comes first; filters choose by user, queue, state and kind."""
    Path("me.yaml").write_text("user: jane@example.org\n")
    here("submit", "-f", write("a", "spec:\n  user: joe\n  clusterQueue: red\n"))
    here("submit", "-f", write("b", "spec:\n  user: jane@example.org\n  gpus: 2\n"))
    report(control_plane, namespace, {"status": "RUNNING", "reason": "JobRunning"}, "b")
    rows = here("list", "--config", "me.yaml").out.splitlines()
    assert [row.split()[0] for row in rows] == ["NAME", "b", "a"]
    assert rows[1].split()[:5] == ["b", "job", "RUNNING", "JobRunning", "2"]
    assert [row.split()[0] for row in here("list", "--all-users").out.splitlines()] == ["NAME", "a", "b"]
    only = [
        (("--user", "joe"), "a"),
        (("--user", "jane-example.org"), "b"),
        (("--queue", "red"), "a"),
        (("--status", "running"), "b"),
        (("--status", "failed,running", "--status", "COMPLETE"), "b"),
    ]
    for flags, name in only:
        result = here("list", *flags, "-o", "name")
        assert result.out == f"kaiwojob.kaiwo.silogen.ai/{name}\n"
    empty = here("list", "service")
    assert (empty.code, empty.out) == (0, "")
    assert empty.err == (
        f"no workloads match these filters in namespace {namespace}; leave one out, "
        "or look in all namespaces with -A\n"
    )
    assert namespace in here("list", "-A").out


def test_what_list_writes_can_be_submitted_again(here: Cli, namespace: str) -> None:
    """The YAML of a list is a manifest."""
    here("submit", "-f", write())
    saved = here("list", "-o", "yaml").out
    result = here("submit", "-f", "-", stdin=saved.encode())
    assert result.err == f"job/train unchanged in namespace {namespace}\n"


@pytest.mark.usefixtures("here")
def test_what_was_submitted_is_found_where_kaiwoconfig_put_it(cli: Cli, home: Path, namespace: str) -> None:
    """A namespace in kaiwoconfig.yaml is that of list, status and delete as well; -n still wins."""
    (home / ".config" / "kaiwo").mkdir(parents=True)
    (home / ".config" / "kaiwo" / "kaiwoconfig.yaml").write_text(f"namespace: {namespace}\n")
    assert f"created in namespace {namespace}" in cli("submit", "-f", write()).err
    assert cli("list", "-o", "name").out == "kaiwojob.kaiwo.silogen.ai/train\n"
    assert cli("status", "train", "-o", "name").code == 0
    assert cli("status", "train", "-n", "default").code == 3
    assert cli("delete", "-f", "job.yaml", "-n", "default").code == 3
    assert cli("delete", "-f", "job.yaml").err == "job/train deleted\n"
    cli("submit", "job.yaml", "--set", 'metadata.labels["team"]=vision')
    assert cli("delete", "-l", "team in (other)").err.startswith("no workloads match team in (other)")
    assert cli("delete", "-l", "team in (vision, other)", "--no-wait").err == "job/train deleted\n"
    assert cli("delete", "-l", "team in vision").code == 1


def test_status_is_one_page(here: Cli, control_plane: Sandbox, namespace: str) -> None:
    """State and reason, conditions, objects, pods and events of the workload."""
    here("submit", "-f", write())
    uid = live(control_plane, namespace)["metadata"]["uid"]
    labels = {"kaiwo.silogen.ai/run-id": uid}
    template = {
        "metadata": {"labels": labels, "annotations": {"kaiwo-sandbox/forever": "true"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    job = {"metadata": {"name": "train", "labels": labels}, "spec": {"template": template}}
    control_plane.api.create(
        f"/apis/batch/v1/namespaces/{namespace}/jobs", {**job, "apiVersion": "batch/v1", "kind": "Job"}
    )
    condition = {
        "type": "Schedulable",
        "status": "True",
        "reason": "Fits",
        "message": "it fits",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    report(
        control_plane,
        namespace,
        {"status": "RUNNING", "reason": "JobRunning", "message": "1 pod runs", "conditions": [condition]},
    )
    deadline = time.monotonic() + 30
    while "pod/train-" not in (page := here("status", "train")).out and time.monotonic() < deadline:
        time.sleep(1)
    assert page.code == 0
    head, _, rest = page.out.partition("\n\n")
    assert "Status:    RUNNING (JobRunning)" in head
    assert "Message:   1 pod runs" in head
    for section in ("Conditions:", "Objects:", "Pods:", "Events:"):
        assert section in rest
    assert "Schedulable   True     Fits" in rest
    assert "  Job    train" in rest
    assert here("describe", "job/train").code == 0


def test_status_of_what_no_operator_has_seen_says_so(here: Cli) -> None:
    """An empty status is not shown as nothing."""
    here("submit", "-f", write())
    assert "Status:    not yet observed by an operator; is one running?" in here("status", "train").out


def test_status_as_data_is_the_object(here: Cli) -> None:
    """For programs, as kubectl get would print it."""
    here("submit", "-f", write())
    assert json.loads(here("status", "job/train", "-o", "json").out)["metadata"]["name"] == "train"
    assert yaml.safe_load(here("-o", "yaml", "status", "train").out)["kind"] == "KaiwoJob"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("nope", 3, 'job or service "nope" not found in namespace '),
        ("service/train", 3, 'service "train" not found in namespace '),
        ("pod/train", 2, 'pod/train: unknown kind "pod" (known: job, service)'),
        ("job/", 2, "job/: expected a name after the slash"),
    ],
)
def test_an_unknown_name_is_reported(here: Cli, name: str, code: int, message: str) -> None:
    """Not found is exit code 3, nonsense 2."""
    result = here("status", name)
    assert result.code == code
    assert message in result.err


def test_delete_removes_and_waits(here: Cli, control_plane: Sandbox, namespace: str) -> None:
    """Several at once; nothing at all when one does not exist."""
    here("submit", "-f", write("a"))
    here("submit", "-f", write("b"))
    missing = here("delete", "a", "nope")
    assert missing.code == 3
    assert "nope not found in namespace" in missing.err
    assert "nothing was deleted" in missing.err
    assert len(control_plane.api.get(KAIWO_JOB.path(namespace))["items"]) == 2
    result = here("delete", "a", "job/b", "nope", "--ignore-not-found")
    assert result.code == 0
    assert result.err == "job/a deleted\njob/b deleted\n"
    assert control_plane.api.get(KAIWO_JOB.path(namespace))["items"] == []


def test_delete_needs_confirmation_on_a_terminal(
    here: Cli, monkeypatch: pytest.MonkeyPatch, control_plane: Sandbox, namespace: str
) -> None:
    """Anything but yes deletes nothing; --yes does not ask."""
    here("submit", "-f", write())
    monkeypatch.setattr("kaiwo.cli.commands.delete.on_terminal", lambda: True)
    refused = here("delete", "train", stdin=b"n\n")
    assert refused.code == 1
    assert "job/train (new, 1 GPU)" in refused.err
    assert "nothing was deleted" in refused.err
    assert live(control_plane, namespace)
    assert here("delete", "train", "--yes").code == 0


def test_delete_waits_for_finalizers_and_names_them(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """A workload that something holds back is a timeout with its reason, exit code 4."""
    here("submit", "-f", write())
    path = KAIWO_JOB.path(namespace, "train")
    merge = "application/merge-patch+json"
    held = {"metadata": {"finalizers": ["example.org/hold"]}}
    control_plane.api.request("PATCH", path, held, content_type=merge)
    try:
        result = here("delete", "train", "--timeout", "1s")
        assert result.code == 4
        assert "still being deleted: job/train (finalizers: example.org/hold)" in result.err
        again = here("submit", "-f", "job.yaml")
        assert again.code == 1
        assert "still being deleted" in again.err
    finally:
        control_plane.api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=merge)


def test_plan_uses_the_clusters_nodes(here: Cli) -> None:
    """Sixteen GPUs in one pod do not fit into nodes of eight."""
    result = here("plan", "-f", write(spec="spec:\n  image: a\n  gpus: 16\n"), "-o", "name")
    assert result.code == 1
    assert "would not run: GPUsExceedNode" in result.err
    assert "without a cluster" not in result.err


def test_plan_of_an_existing_workload_reports_what_the_operator_reported(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """A workload that cannot run is no news, and still cannot run; one that ended has nothing to do."""
    here("submit", "-f", write(spec="spec:\n  image: a\n  gpus: 16\n"))
    first = here("plan", "-f", "job.yaml", "-o", "json")
    assert first.code == 1
    generation = live(control_plane, namespace)["metadata"]["generation"]
    ended = {"status": "COMPLETE", "message": "Job train completed", "observedGeneration": generation}
    report(control_plane, namespace, ended)
    second = here("plan", "-f", "job.yaml", "-o", "name")
    assert (second.code, second.out) == (0, "")
    assert "job/train: nothing to do: COMPLETE: Job train completed" in second.err


def test_plan_of_a_workload_without_changes_repeats_what_the_operator_reported(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """The operator has read more than the command does: events, the queue, what Ray says."""
    here("submit", "-f", write(spec="spec:\n  image: a\n"))
    made = yaml.safe_load(here("plan", "-f", "job.yaml", "-o", "yaml").out)
    metadata = live(control_plane, namespace)["metadata"]
    owner = {"name": "train", "uid": metadata["uid"], "controller": True}
    made["metadata"]["ownerReferences"] = [{"apiVersion": KAIWO_JOB.api_version, "kind": "KaiwoJob", **owner}]
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs?fieldManager=kaiwo"
    control_plane.api.request("POST", path, made)
    refused = {
        "status": "STARTING",
        "message": "exceeded quota: rq",
        "observedGeneration": metadata["generation"],
    }
    report(control_plane, namespace, refused)
    result = here("plan", "-f", "job.yaml", "-o", "name")
    assert "job/train: nothing to do: STARTING: exceeded quota: rq" in result.err


def test_plan_shows_the_api_servers_refusal_of_an_embedded_object(
    here: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message comes before the job is submitted, with the path of the field."""
    spec = (
        "spec:\n  job:\n    spec:\n      template:\n        spec:\n          containers:\n"
        "          - {name: a, image: b, ports: [{containerPort: 99999999}]}\n"
    )
    monkeypatch.setenv("KAIWO_PLUGINS_DISABLED", "kueue")  # this cluster has no Kueue
    result = here("plan", "-f", write(spec=spec), "-o", "name")
    assert result.code == 1
    assert "would not run: InvalidSpec: " in result.err
    assert "containers[0].ports[0].containerPort" in result.err


def test_crds_keep_what_the_cluster_has(here: Cli) -> None:
    """Rendering from the cluster with fewer plugins takes no field out."""
    assert "rayJob" not in here("manifests", "crds", "--plugins", "batch_job").out
    assert "rayJob" in here("manifests", "crds", "--plugins", "batch_job", "--from-cluster").out


def test_version_shows_the_versions_of_the_cluster(here: Cli) -> None:
    """One command shows both sides."""
    assert "kubernetes v1." in here("version").out
