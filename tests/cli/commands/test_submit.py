"""``kaiwo submit`` of what exists already, against a real API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from kaiwo.client.kinds import KAIWO_JOB

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


pytestmark = pytest.mark.cluster


def write(spec: str) -> None:
    """A manifest of the job train in the working directory."""
    head = "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoJob\nmetadata: {name: train}\n"
    Path("job.yaml").write_text(f"{head}spec: {{{spec}}}\n")


def live(control_plane: Sandbox, namespace: str) -> dict[str, Any]:
    """The stored job."""
    found = control_plane.api.get(KAIWO_JOB.path(namespace, "train"))
    assert isinstance(found, dict)
    return found


def ended(control_plane: Sandbox, namespace: str) -> None:
    """Write the status of a finished job, as an operator would."""
    patch = {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": "train", "namespace": namespace},
        "status": {"status": "COMPLETE"},
    }
    path = KAIWO_JOB.path(namespace, "train", "status") + "?fieldManager=test&force=true"
    control_plane.api.request("PATCH", path, patch, content_type="application/apply-patch+yaml")


def test_a_change_of_an_ended_job_is_an_error_with_the_way_out(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """The words "configured" and exit code 0 would say that something runs."""
    write("gpus: 1")
    assert here("submit", "-f", "job.yaml").code == 0
    ended(control_plane, namespace)
    write("gpus: 2")
    result = here("submit", "-f", "job.yaml", "--wait")
    assert result.code == 1
    assert "job/train has ended (COMPLETE); a change does not run it again; " in result.err
    assert "use another name, or --replace to delete it and create it anew" in result.err
    assert live(control_plane, namespace)["spec"]["gpus"] == 1


def test_replace_deletes_and_creates_anew_once_confirmed(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """Nothing is deleted without a yes; a dry run shows what would happen."""
    write("gpus: 1")
    here("submit", "-f", "job.yaml")
    ended(control_plane, namespace)
    before = live(control_plane, namespace)["metadata"]["uid"]
    dry = here("submit", "-f", "job.yaml", "--replace", "--dry-run")
    assert dry.err == f"job/train replaced in namespace {namespace} (dry run)\n"
    unconfirmed = here("submit", "-f", "job.yaml", "--replace")
    assert unconfirmed.code == 2
    assert "error: --replace deletes job/train; nothing was sent\nhint: confirm with --yes" in unconfirmed.err
    assert live(control_plane, namespace)["metadata"]["uid"] == before
    done = here("submit", "-f", "job.yaml", "--replace", "--yes")
    assert (done.code, done.err) == (0, f"job/train replaced in namespace {namespace}\n")
    after = live(control_plane, namespace)
    assert after["metadata"]["uid"] != before
    assert "status" not in after
    again = here("submit", "-f", "job.yaml", "--replace")
    assert again.err == f"job/train unchanged in namespace {namespace}\n"


def test_replace_keeps_what_is_only_written_otherwise(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """2000m CPU are 2, so nothing would change and nothing is deleted."""
    write("resources: {limits: {cpu: 2}}")
    here("submit", "-f", "job.yaml")
    before = live(control_plane, namespace)["metadata"]["uid"]
    write("resources: {limits: {cpu: 2000m}}")
    other = here("submit", "-f", "job.yaml", "--replace")
    assert other.err == f"job/train configured in namespace {namespace}\n"
    assert live(control_plane, namespace)["metadata"]["uid"] == before


def test_replace_reaches_what_cannot_change_in_place(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """A field that the API server does not let change is no obstacle for an object that is created anew."""
    write("ray: false")
    here("submit", "-f", "job.yaml")
    write("ray: true")
    assert here("submit", "-f", "job.yaml").code == 2
    assert here("submit", "-f", "job.yaml", "--replace", "--yes").code == 0
    assert live(control_plane, namespace)["spec"]["ray"] is True


def test_the_workload_of_another_user_is_not_taken_by_accident(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """Two people chose one name; --take-over says that it is meant. Spellings of one user are one."""
    write("gpus: 1")
    here("submit", "-f", "job.yaml", "--user", "jane@example.org")
    for other in (["--user", "joe"], []):
        refused = here("submit", "-f", "job.yaml", *other)
        assert refused.code == 1
        assert "job/train belongs to user jane@example.org; use another name, or --take-over" in refused.err
        assert live(control_plane, namespace)["spec"]["user"] == "jane@example.org"
    assert here("submit", "-f", "job.yaml", "--user", "jane@example.org").code == 0
    assert here("submit", "-f", "job.yaml", "--user", "joe", "--take-over").code == 0
    assert live(control_plane, namespace)["spec"]["user"] == "joe"
