"""The backend contract lets a good backend pass and names what is wrong with a bad one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from kaiwo import testing
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB
from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.observation import Observation, Outcome
from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput
from kaiwo.testing.overrides import override_methods
from kaiwo.workload.errors import SpecError
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import system_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object


def child(given: RenderInput) -> Object:
    """A Job as it should be."""
    labels = system_labels(given.workload)
    queued = dict(given.queue.labels) if given.queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": given.workload.name, "labels": labels | queued},
        "spec": {
            "template": {
                "metadata": {
                    "labels": dict(labels),
                    "annotations": dict(given.queue.pod_annotations) if given.queue else {},
                },
                "spec": {"containers": [{"name": "workload", "image": given.resolved.default_image}]},
            }
        },
    }


def observe(observation: Observation) -> Outcome:
    """What a backend should say of a child that nobody has started."""
    del observation
    return Outcome("STARTING", "Created", "the Job has no pod yet")


class AcmeBackend(BackendBase):
    """Serves everything but Ray."""

    def serves(self, workload: Workload) -> bool:
        """Whether it is not for Ray."""
        return not workload.spec.ray

    def allocate(self, inp: AllocationInput) -> Allocation:
        """One pod without GPUs."""
        del inp
        return Allocation()

    def render(self, inp: RenderInput) -> Rendered:
        """What a backend should render."""
        return Rendered(child(inp))

    def observe(self, observation: Observation) -> Outcome:
        """The status of a child that has not started."""
        return observe(observation)


class Incomplete(BackendBase):
    """Lacks abstract methods."""


GOOD = Backend(
    name="acme",
    kind="KaiwoJob",
    child=JOB,
    fields=(Field("KaiwoJob", ("acmeJob",), dict, "An Acme job."),),
    implementation=AcmeBackend,
)


def test_a_good_backend_passes_built_or_only_declared() -> None:
    """The contract requires nothing that cannot be done, and of a declaration only what it declares."""
    testing.assert_backend_contract(GOOD, [testing.job(), testing.job("other", acmeJob={})])
    declared = replace(GOOD, implementation=None)
    testing.assert_backend_contract(declared, [testing.job(acmeJob={})])
    with pytest.raises(AssertionError, match="has no block acmeJob"):
        testing.assert_backend_contract(declared, [testing.job()])


def rendering(change: Callable[[Object], Any]) -> Backend:
    """A backend whose child is changed like this."""

    def changed(given: RenderInput) -> Rendered:
        made = child(given)
        change(made)
        return Rendered(made)

    return override_methods(GOOD, render=changed)


def observing(status: str) -> Backend:
    """A backend that always says this."""
    return override_methods(GOOD, observe=lambda _: Outcome(status, "Guessed", "it says"))


def reads_conditions(observation: Observation) -> Outcome:
    """Fails where a status makes no sense."""
    for condition in observation.child.get("status", {}).get("conditions", []):
        condition["type"]
    return observe(observation)


def reads_ready(observation: Observation) -> Outcome:
    """Reads a field of the status."""
    lenient_map(observation.child.get("status")).get("ready")
    return observe(observation)


def rejects(workload: Workload) -> None:
    """Accepts no workload."""
    raise SpecError("spec.acmeJob", f"no: {workload.name}")


def changes_child(observation: Observation) -> Outcome:
    """Writes notes into what it was given."""
    observation.child["seen"] = True
    return observe(observation)


def believes_pods(observation: Observation) -> Outcome:
    """Takes every pod for one that runs."""
    return Outcome("RUNNING", "Running", "it runs") if observation.pods else observe(observation)


def reads_file(given: RenderInput) -> Rendered:
    """Renders what a file of the operator's machine says."""
    Path(__file__).stat()
    return Rendered(child(given))


COUNTER = itertools.count()

BAD: dict[str, Backend] = {
    "its class cannot be loaded: TypeError.*abstract": replace(GOOD, implementation=Incomplete),  # type: ignore[type-abstract]  # the point
    "its class cannot be loaded: TypeError.*expected a subclass of BackendBase, got str": replace(
        GOOD,
        implementation=str,  # type: ignore[arg-type]  # the point
    ),
    "does not serve it": override_methods(GOOD, serves=lambda _: False),
    "serves returned None, expected True or False": override_methods(
        GOOD, serves=lambda workload: workload.spec.user
    ),
    "serves KaiwoService": replace(GOOD, kind="KaiwoService"),
    "rejects it: spec.acmeJob: no": override_methods(GOOD, validate=rejects),
    "cannot run: NoGPUs": override_methods(GOOD, allocate=lambda _: Blocked("NoGPUs", "none here")),
    "GPUs without a resource key": override_methods(GOOD, allocate=lambda _: Allocation(gpus_per_replica=1)),
    "apiVersion of the child": rendering(lambda job: job.update(apiVersion="v1")),
    "kind of the child": rendering(lambda job: job.update(kind="Pod")),
    "named like it": rendering(lambda job: job["metadata"].update(name="other")),
    "has a status": rendering(lambda job: job.update(status={})),
    "null at spec.suspend": rendering(lambda job: job["spec"].update(suspend=None)),
    "not plain JSON": rendering(lambda job: job["spec"].update(x=(1, 2))),
    "returned another result the second time": rendering(lambda job: job["spec"].update(x=next(COUNTER))),
    "the child lacks the label": rendering(lambda job: job["metadata"].update(labels={})),
    "spec.template lacks the label": rendering(lambda job: job["spec"]["template"].update(metadata={})),
    "RUNNING is claimed of a child that is queued": observing("RUNNING"),
    "RUNNING is claimed of pods that wait": override_methods(GOOD, observe=believes_pods),
    "neither the child nor a pod template has the queue's labels": rendering(
        lambda job: job["metadata"]["labels"].pop("example.com/queue", None)
    ),
    "the queued child is not suspended": replace(GOOD, owned_paths=(("spec", "suspend"),)),
    r"render is not pure: does I/O \(os.stat\) in tests": override_methods(GOOD, render=reads_file),
    "is no status": observing("Running"),
    "observe, with the status None, raised": override_methods(GOOD, observe=reads_conditions),
    "changed what it was given": override_methods(GOOD, observe=changes_child),
    "which `reads` does not name": override_methods(replace(GOOD, reads=("startTime",)), observe=reads_ready),
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_backend_fails_with_what_is_wrong(message: str) -> None:
    """An author learns from the kit what a cluster would teach later."""
    with pytest.raises(AssertionError, match=message):
        testing.assert_backend_contract(BAD[message], [testing.job()])


class Settings(BaseModel):
    """Settings of a backend."""

    priority: int = 1


def test_every_setting_is_tried() -> None:
    """A backend that renders well by default and badly with a setting is noticed."""

    def render(given: RenderInput) -> Rendered:
        made = child(given)
        assert isinstance(given.settings, Settings)
        made["spec"]["priority"] = given.settings.priority if given.settings.priority < 9 else None
        return Rendered(made)

    backend = override_methods(replace(GOOD, settings=Settings), render=render)
    testing.assert_backend_contract(backend, [testing.job()], settings=[Settings(priority=8)])
    with pytest.raises(AssertionError, match=r"null at spec.priority"):
        testing.assert_backend_contract(backend, [testing.job()], settings=[Settings(priority=9)])


def test_the_child_is_checked_against_its_crd() -> None:
    """What the API server would refuse or drop is named before there is an API server."""
    spec = {"type": "object", "properties": {"template": {"x-kubernetes-preserve-unknown-fields": True}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    crd = {
        "metadata": {"name": "jobs.batch"},
        "spec": {
            "group": "batch",
            "names": {"kind": "Job", "plural": "jobs"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        },
    }
    testing.assert_backend_contract(GOOD, [testing.job()], crds=[crd])
    misspelt = rendering(lambda job: job["spec"].update(suspnd=True))
    with pytest.raises(AssertionError, match=r"Job train does not match its CRD: spec.suspnd is unknown"):
        testing.assert_backend_contract(misspelt, [testing.job()], crds=[crd])
