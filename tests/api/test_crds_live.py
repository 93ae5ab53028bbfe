"""How the API server acts on our definitions: what never changes, what stays, and what is drift."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import pytest
import yaml
from pydantic import Field

from kaiwo.api.base_model import Model
from kaiwo.api.crd_compat import crd_differences, keep_known
from kaiwo.api.crds import CrdKind, render_crd
from kaiwo.api.scalars import Opaque
from kaiwo.api.spec_rules import object_validations
from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kaiwo_sandbox.sandbox import Sandbox

pytestmark = pytest.mark.cluster

CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TIMEOUT_SECONDS = 30


class Wide(Model):
    """A spec with a field of a plugin."""

    ray: Annotated[bool, Field(description="On Ray.")] = False
    block: Annotated[Opaque | None, Field(description="Of a plugin.")] = None


class Narrow(Model):
    """The same without the plugin."""

    ray: Annotated[bool, Field(description="On Ray.")] = False


class Status(Model):
    """A status."""

    note: Annotated[str | None, Field(description="A note.")] = None


def eventually(attempt: Callable[[], bool], what: str) -> None:
    """A changed definition takes the API server a moment."""
    for _ in range(_TIMEOUT_SECONDS):
        if attempt():
            return
        time.sleep(1)
    raise AssertionError(what)


def answer(sandbox: Sandbox, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and object, or status and message of a refusal."""
    from kaiwo_sandbox.api import SandboxApiError

    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    try:
        return 200, sandbox.api.request(method, path, body, content_type=kind)
    except SandboxApiError as error:
        return error.status, str(error)


class OwnKind:
    """A kind of one test alone, in a group of its own, so that no test waits for another's deletion."""

    def __init__(self, sandbox: Sandbox, namespace: str) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self.resource = Resource(f"{namespace}.example.com", "v1alpha1", "Keepsake", "keepsakes")
        self.definition = f"{CRD_PATH}/keepsakes.{self.resource.group}"

    def render(self, spec: type[Model], *, rules: bool = False) -> dict[str, Any]:
        """The definition with that spec."""
        found = tuple(object_validations(())) if rules else ()
        return render_crd(CrdKind(self.resource, spec, Status, object_rules=found))

    def apply(self, crd: dict[str, Any]) -> None:
        """Apply a definition and wait until the kind is served."""
        self.sandbox.api.apply(self.definition, crd)
        path = self.resource.path(self.namespace)
        eventually(lambda: answer(self.sandbox, "GET", path)[0] == 200, "the kind is not served")

    def live(self) -> dict[str, Any]:
        """The definition as the API server has it."""
        found: dict[str, Any] = self.sandbox.api.get(self.definition)
        return found

    def make(self, name: str, *, dry_run: bool = False) -> int:
        """Create an object with a plugin's block; the status of the answer."""
        obj = {
            "apiVersion": self.resource.api_version,
            "kind": "Keepsake",
            "metadata": {"name": name},
            "spec": {"block": {"deep": [{"er": 1}]}},
        }
        path = self.resource.path(self.namespace) + ("?dryRun=All" if dry_run else "")
        return answer(self.sandbox, "POST", path, obj)[0]

    def patch(self, name: str, body: dict[str, Any], subresource: str | None = None) -> tuple[int, Any]:
        """Merge-patch an object."""
        return answer(self.sandbox, "PATCH", self.resource.path(self.namespace, name, subresource), body)


@pytest.fixture
def own(control_plane: Sandbox, namespace: str) -> Iterator[OwnKind]:
    """A kind for this test alone, gone in the end."""
    kind = OwnKind(control_plane, namespace)
    yield kind
    answer(control_plane, "DELETE", kind.definition)


def test_data_of_a_plugin_that_is_not_selected_survives(own: OwnKind) -> None:
    """Objects keep the block through a smaller selection and the writes that follow."""
    own.apply(own.render(Wide))
    assert own.make("kept") == 200
    (narrow,) = keep_known([own.render(Narrow)], [own.live()])
    own.apply(narrow)
    eventually(lambda: not crd_differences([own.live()], [narrow]), "the narrower definition is not live")
    code, after = own.patch("kept", {"metadata": {"labels": {"touched": "yes"}}})
    assert (code, after["spec"]["block"]) == (200, {"deep": [{"er": 1}]})


def test_a_name_from_before_a_rule_can_still_get_a_status(own: OwnKind) -> None:
    """The controller can say InvalidName on an old object, while new ones are refused."""
    own.apply(own.render(Wide))
    assert own.make("old.name") == 200
    own.apply(own.render(Wide, rules=True))
    eventually(lambda: own.make("new.name", dry_run=True) == 422, "the rule is not live")
    code, after = own.patch("old.name", {"status": {"note": "InvalidName"}}, "status")
    assert (code, after["status"]["note"]) == (200, "InvalidName")


@pytest.fixture
def crds(control_plane: Sandbox, crd_files: list[Path]) -> list[dict[str, Any]]:
    """The definitions of the repository, applied."""
    rendered = [yaml.safe_load(path.read_text()) for path in crd_files]
    for crd in rendered:
        control_plane.api.apply(f"{CRD_PATH}/{crd['metadata']['name']}", crd)
    return rendered


def test_what_was_applied_does_not_differ(control_plane: Sandbox, crds: list[dict[str, Any]]) -> None:
    """The API server's own additions to a definition are not reported."""
    live = [control_plane.api.get(f"{CRD_PATH}/{crd['metadata']['name']}") for crd in crds]
    assert crd_differences(live, crds) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [({"ray": True}, "spec.ray"), ({"rayJob": {}}, "spec.rayJob"), ({"ray": True, "rayJob": {}}, "spec.ray")],
)
def test_the_back_end_of_a_workload_cannot_change(
    control_plane: Sandbox, namespace: str, crds: list[dict[str, Any]], change: dict[str, Any], field: str
) -> None:
    """The API server itself says which field, and what to do instead."""
    assert crds
    job = {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {"name": "plain"},
        "spec": {"job": {}},
    }
    collection = f"/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{namespace}/kaiwojobs"
    eventually(lambda: answer(control_plane, "POST", collection, job)[0] == 200, "the kind is not served")
    patch = f"{collection}/plain?dryRun=All"
    code, message = answer(control_plane, "PATCH", patch, {"spec": change})
    assert code == 422
    assert field in message
    assert "is immutable: delete the workload and create it anew" in message
    assert answer(control_plane, "PATCH", patch, {"spec": {"ray": False, "duration": "1h"}})[0] == 200
