"""Which backend runs a workload that several would take."""

from __future__ import annotations

from dataclasses import replace

import pytest

import kaiwo_batch_job.plugin
from kaiwo.api.workload import Workload
from kaiwo.testing import job, plugins
from kaiwo.testing.overrides import override_methods
from kaiwo.workload.backend_selection import select_backend
from kaiwo.workload.model import Registry

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
