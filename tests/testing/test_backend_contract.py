"""The backend contract lets a good backend pass and names what is wrong with a bad one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo import testing
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.observation import Observation, Outcome
from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import system_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.resource import Object


def allocate(given: AllocationInput) -> Allocation:
    """One pod without GPUs."""
    del given
    return Allocation()


def child(given: RenderInput) -> Object:
    """A Job as it should be."""
    labels = system_labels(given.workload)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": given.workload.name, "labels": labels},
        "spec": {
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {"containers": [{"name": "workload", "image": given.resolved.default_image}]},
            }
        },
    }


def render(given: RenderInput) -> Rendered:
    """What a backend should render."""
    return Rendered(child(given))


def observe(observation: Observation) -> Outcome:
    """What a backend should say of a child that nobody has started."""
    del observation
    return Outcome("STARTING", "Created", "the Job has no pod yet")


GOOD = Backend(
    name="acme",
    kind="KaiwoJob",
    child=JOB,
    fields=(Field("KaiwoJob", ("acmeJob",), dict, "An Acme job."),),
    chosen=lambda workload: not workload.spec.ray,
    allocate=allocate,
    render=render,
    observe=observe,
)


def test_a_good_backend_passes_built_or_only_declared() -> None:
    """The contract asks for nothing that cannot be done, and of a declaration only what it declares."""
    testing.assert_backend_contract(GOOD, [testing.job(), testing.job("other", acmeJob={})])
    declared = replace(GOOD, allocate=None, render=None, observe=None)
    testing.assert_backend_contract(declared, [testing.job()])


def rendering(change: Callable[[Object], Any]) -> Backend:
    """A backend whose child is changed like this."""

    def changed(given: RenderInput) -> Rendered:
        made = child(given)
        change(made)
        return Rendered(made)

    return replace(GOOD, render=changed)


def observing(status: str) -> Backend:
    """A backend that always says this."""
    return replace(GOOD, observe=lambda _: Outcome(status, "Guessed", "it says"))


def reads_conditions(observation: Observation) -> Outcome:
    """Fails where a status makes no sense."""
    for condition in observation.child.get("status", {}).get("conditions", []):
        condition["type"]
    return observe(observation)


def reads_ready(observation: Observation) -> Outcome:
    """Reads a field of the status."""
    lenient_map(observation.child.get("status")).get("ready")
    return observe(observation)


def changes_child(observation: Observation) -> Outcome:
    """Writes notes into what it was given."""
    observation.child["seen"] = True
    return observe(observation)


COUNTER = itertools.count()

BAD: dict[str, Backend] = {
    "come together": replace(GOOD, observe=None),
    "does not choose it": replace(GOOD, chosen=lambda _: False),
    "chosen answers with True or False": replace(GOOD, chosen=lambda workload: workload.spec.user),  # type: ignore[arg-type, return-value]  # the point
    "serves KaiwoService": replace(GOOD, kind="KaiwoService"),
    "refuses it": replace(GOOD, check=lambda _: (("spec", "no"),)),
    "cannot run: NoGPUs": replace(GOOD, allocate=lambda _: Blocked("NoGPUs", "none here")),
    "GPUs without a resource key": replace(GOOD, allocate=lambda _: Allocation(gpus_per_replica=1)),
    "apiVersion of the child": rendering(lambda job: job.update(apiVersion="v1")),
    "kind of the child": rendering(lambda job: job.update(kind="Pod")),
    "named like it": rendering(lambda job: job["metadata"].update(name="other")),
    "has a status": rendering(lambda job: job.update(status={})),
    "null at spec.suspend": rendering(lambda job: job["spec"].update(suspend=None)),
    "not plain JSON": rendering(lambda job: job["spec"].update(x=(1, 2))),
    "answered differently the second time": rendering(lambda job: job["spec"].update(x=next(COUNTER))),
    "the child lacks the label": rendering(lambda job: job["metadata"].update(labels={})),
    "spec.template lacks the label": rendering(lambda job: job["spec"]["template"].update(metadata={})),
    "RUNNING is claimed": observing("RUNNING"),
    "is no status": observing("Running"),
    "observe, with the status None, raised": replace(GOOD, observe=reads_conditions),
    "observe changed the child": replace(GOOD, observe=changes_child),
    "which `reads` does not name": replace(GOOD, observe=reads_ready, reads=("startTime",)),
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_backend_fails_with_what_is_wrong(message: str) -> None:
    """An author learns from the kit what a cluster would teach later."""
    with pytest.raises(AssertionError, match=message):
        testing.assert_backend_contract(BAD[message], [testing.job()])
