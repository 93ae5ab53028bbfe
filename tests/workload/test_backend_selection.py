"""Which backend runs a workload that several would take."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import kaiwo_batch_job.plugin
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.workload import Workload
from kaiwo.testing import job, plugins
from kaiwo.testing.builders import NOW
from kaiwo.testing.overrides import override_methods
from kaiwo.workload.backend_selection import select_backend
from kaiwo.workload.model import Facts, Registry
from kaiwo.workload.plan import plan as decide
from kaiwo.workload.plan import plan_object

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

(BATCH,) = Registry.of(plugins(kaiwo_batch_job.plugin)).backends
THEIRS = replace(BATCH, name="slurm", fields=(replace(BATCH.fields[0], path=("slurmJob",)),), variants=())


def served(fields: dict[str, object], *, slurm: bool = True) -> str:
    """The name of the backend that runs a KaiwoJob with these fields."""
    theirs = override_methods(THEIRS, serves=lambda _: slurm)
    found = select_backend(Workload.from_object(job(**fields)), Registry(backends=(BATCH, theirs))).backend
    assert found is not None
    return found.name


@pytest.mark.parametrize(
    ("fields", "name"),
    [({}, "batch_job"), ({"slurmJob": {}}, "slurm"), ({"job": {}}, "batch_job"),
     ({"job": {}, "slurmJob": {}}, "batch_job")],
)  # fmt: skip
def test_the_block_that_is_given_decides(fields: dict[str, object], name: str) -> None:
    """Who writes a backend's own block means that one; otherwise they come by name."""
    assert served(fields) == name


def test_a_block_does_not_force_a_back_end() -> None:
    """One that declines the workload does not get it."""
    assert served({"slurmJob": {}}, slurm=False) == "batch_job"


def test_a_backend_that_is_not_selected_has_no_effect() -> None:
    """The rule of a later one that fails harms only workloads with its block."""

    def fails(_: Workload) -> bool:
        raise RuntimeError("broken")

    registry = Registry(backends=(BATCH, override_methods(THEIRS, serves=fails)))
    found = select_backend(Workload.from_object(job()), registry).backend
    assert found is not None
    assert found.name == "batch_job"


def test_a_block_that_no_loaded_backend_owns_is_not_run_by_another_one() -> None:
    """A workload that was written for a plugin which is gone must not run as a plain Job."""
    choice = select_backend(Workload.from_object(job(slurmJob={})), Registry(backends=(BATCH,)))
    assert choice.backend is None
    assert choice.blocked is not None
    assert choice.blocked.reason == "BackendNotLoaded"
    assert "spec.slurmJob" in choice.blocked.message


def running(backend: str) -> Object:
    """A KaiwoJob that runs on a backend, by its last status."""
    status = {
        "status": "RUNNING",
        "reason": "Running",
        "message": "Job train runs",
        "childUID": "uid-of-child",
        "allocation": {"backend": backend, "gpus": 0, "replicas": 1, "gpusPerReplica": 0},
    }
    return {**job(slurmJob={}), "status": status}


def test_a_running_workload_whose_backend_is_gone_keeps_its_status() -> None:
    """Nothing is written but the condition that says why, and nothing is created in its place."""
    registry = Registry(backends=(BATCH,))
    plan = plan_object(running("slurm"), registry, Facts(now=NOW, config=ResolvedConfig.defaults()))
    assert plan.writes == ()
    (status,) = plan.statuses
    assert (status["status"], status["reason"], status["childUID"]) == ("RUNNING", "Running", "uid-of-child")
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("SpecApplied", "False")
    assert condition["reason"] == "BackendNotLoaded"
    again = {**running("slurm"), "status": status}
    later = Facts(now=NOW + timedelta(hours=1), config=ResolvedConfig.defaults())
    assert plan_object(again, registry, later).statuses == ()


def test_the_backend_of_a_running_workload_is_in_charge_again_once_it_is_loaded() -> None:
    """The loss of a plugin heals."""
    choice = select_backend(Workload.from_object(running("slurm")), Registry(backends=(BATCH, THEIRS)))
    assert choice.backend is not None
    assert choice.backend.name == "slurm"


def test_a_workload_that_cannot_be_decoded_gets_a_status_that_says_why() -> None:
    """The rest of the object is enough to report it."""
    workload = Workload.from_live(job(), "spec.job is nested more than 100 levels deep")
    registry = Registry(backends=(BATCH,))
    facts = Facts(now=NOW, config=ResolvedConfig.defaults())
    plan = decide(workload, registry, facts, select_backend(workload, registry))
    assert plan.writes == ()
    assert plan.statuses[-1]["reason"] == "SpecTooLarge"
    assert "nested more than 100 levels" in plan.statuses[-1]["message"]
