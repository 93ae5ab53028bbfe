"""What plugins add to pods, and what they cannot take away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation
from kaiwo.plugin.rendering import PodContribution, RenderInput, Resolved
from kaiwo.testing import job
from kaiwo.workload.errors import PluginError
from kaiwo.workload.pods.origins import Origins
from kaiwo.workload.pods.template import PodRole, pod_template

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

ROLE = PodRole(path="spec.job.spec.template")
RESOLVED = Resolved(
    allocation=Allocation(),
    default_image="default:1",
    scheduler_name="kaiwo-scheduler",
    mount_paths={"data": "/workload", "hf": "/hf_cache"},
    vendor_keys=("amd.com/gpu",),
)
EMBEDDED = {
    "spec": {
        "containers": [
            {"name": "mine", "image": "mine:1", "command": ["run"], "args": ["fast"]},
            {"name": "log", "image": "log:1"},
        ],
        "initContainers": [{"name": "prepare", "image": "prepare:1"}],
    }
}


def template(*functions: Any, given: Any = None, **spec: Any) -> Object:
    """The pod template of a job with these contributions, of plugins named ``proxy``."""
    contributions = tuple(PodContribution("proxy", function) for function in functions)
    inp = RenderInput(Workload.from_object(job(**spec)), RESOLVED, contributions=contributions)
    return pod_template(inp, given, ROLE, Origins("spec.job."))[0]


def test_plugins_add_to_pods_and_are_named_as_the_origin() -> None:
    """A contribution reaches the pod; what it added is told to be the plugin's."""

    def sidecar(_: RenderInput, pod: Object) -> Object:
        pod["spec"]["containers"].append({"name": "proxy", "image": "proxy:1"})
        return pod

    origins = Origins("spec.job.")
    inp = RenderInput(
        Workload.from_object(job()), RESOLVED, contributions=(PodContribution("proxy", sidecar),)
    )
    result, _ = pod_template(inp, None, ROLE, origins)
    assert [item["name"] for item in result["spec"]["containers"]] == ["workload", "proxy"]
    assert ("plugin", "proxy") in origins.known().values()


def test_a_contribution_that_fails_names_its_plugin() -> None:
    """A plugin that raises, or returns nonsense, is named; the pod is not made."""

    def bad(_: RenderInput, __: Object) -> Object:
        raise KeyError("x")

    for function in (bad, lambda _, __: None):
        with pytest.raises(PluginError, match="plugin proxy"):
            template(function)


def _no_containers(pod: Object) -> None:
    pod["spec"]["containers"] = []


def _one_container_less(pod: Object) -> None:
    del pod["spec"]["containers"][1]


def _no_init_containers(pod: Object) -> None:
    del pod["spec"]["initContainers"]


def _other_image(pod: Object) -> None:
    pod["spec"]["containers"][0]["image"] = "evil:1"


def _other_init_image(pod: Object) -> None:
    pod["spec"]["initContainers"][0]["image"] = "evil:1"


def _other_command(pod: Object) -> None:
    pod["spec"]["containers"][0]["command"] = ["evil"]


def _no_arguments(pod: Object) -> None:
    del pod["spec"]["containers"][0]["args"]


def _no_labels(pod: Object) -> None:
    pod["metadata"]["labels"] = {}


def _other_run(pod: Object) -> None:
    pod["metadata"]["labels"]["kaiwo.silogen.ai/name"] = "other"


def _no_metadata(pod: Object) -> None:
    del pod["metadata"]


def _null(pod: Object) -> None:
    pod["spec"]["containers"][1]["env"] = None


def _text(pod: Object) -> None:
    pod["spec"]["containers"] = "none"


def _texts(pod: Object) -> None:
    pod["spec"]["initContainers"] = ["none"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_no_containers, "it removed container mine from containers"),
        (_one_container_less, "it removed container log from containers"),
        (_no_init_containers, "it removed container prepare from initContainers"),
        (_other_image, "it changed image of container mine"),
        (_other_init_image, "it changed image of container prepare"),
        (_other_command, "it changed command of container mine"),
        (_no_arguments, "it changed args of container mine"),
        (_no_labels, "it changed label kaiwo.silogen.ai/"),
        (_other_run, "it changed label kaiwo.silogen.ai/name"),
        (_no_metadata, "it changed label kaiwo.silogen.ai/"),
        (_null, r"it returned null at spec.containers[1].env"),
        (_text, "it returned containers that is not a list of containers"),
        (_texts, "it returned initContainers that is not a list of containers"),
    ],
)
def test_a_contribution_that_takes_away_what_is_not_its_own_is_refused(change: Any, fault: str) -> None:
    """Containers, what the user runs in them and Kaiwo's labels stay; the message names plugin and fault."""

    def contribute(_: RenderInput, pod: Object) -> Object:
        change(pod)
        return pod

    with pytest.raises(PluginError) as caught:
        template(contribute, given=EMBEDDED)
    assert str(caught.value).startswith(f"plugin proxy failed to add to the pods of this workload: {fault}")


def test_the_image_and_entrypoint_of_the_spec_are_the_users_too() -> None:
    """It makes no difference where the user wrote them."""

    def image(_: RenderInput, pod: Object) -> Object:
        pod["spec"]["containers"][0]["image"] = "evil:1"
        return pod

    def entrypoint(_: RenderInput, pod: Object) -> Object:
        pod["spec"]["containers"][0]["command"] = ["evil"]
        return pod

    with pytest.raises(PluginError, match="it changed image of container workload"):
        template(image, image="mine:1")
    with pytest.raises(PluginError, match="it changed command of container workload"):
        template(entrypoint, image="mine:1", entrypoint="run")


def test_a_default_image_may_be_replaced() -> None:
    """A plugin that brings its own image where the user gave none is a good plugin."""

    def contribute(_: RenderInput, pod: Object) -> Object:
        pod["spec"]["containers"][0]["image"] = "better:1"
        return pod

    assert template(contribute)["spec"]["containers"][0]["image"] == "better:1"


def test_a_later_contribution_cannot_remove_what_an_earlier_one_added() -> None:
    """A container stays whoever it came from, and wherever a plugin inserts its own."""

    def before(_: RenderInput, pod: Object) -> Object:
        pod["spec"]["containers"].insert(0, {"name": "first", "image": "first:1"})
        return pod

    def away(_: RenderInput, pod: Object) -> Object:
        del pod["spec"]["containers"][0]
        return pod

    names = [item["name"] for item in template(before, given=EMBEDDED)["spec"]["containers"]]
    assert names == ["first", "mine", "log"]
    with pytest.raises(PluginError, match="it removed container first from containers"):
        template(before, away, given=EMBEDDED)
