"""Definitions of a later version are told from those of this one and of earlier ones."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crd_versions import VERSION, newer_definitions, own_version
from kaiwo.api.crds import render_crds

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object


@pytest.fixture(scope="module")
def rendered() -> list[Object]:
    """The definitions of this version, as one later than 1.2.3's candidate."""
    return [marked(crd, "1.2.3") for crd in render_crds(())]


def marked(crd: Object, version: str | None) -> Object:
    """A definition that another version rendered; None for one from before the annotation."""
    changed = copy.deepcopy(crd)
    changed["metadata"]["annotations"] = {VERSION: version} if version is not None else {}
    return changed


def test_a_rendered_definition_says_its_version() -> None:
    """The annotation has the version of the distribution."""
    assert {crd["metadata"]["annotations"][VERSION] for crd in render_crds(())} == {own_version()}


@pytest.mark.parametrize("version", ["1.2.4", "1.10", "1.10.0", "2", "1.2.3.1", "10.0.0rc1", "1.2.4.dev1"])
def test_a_later_version_is_named(rendered: list[Object], version: str) -> None:
    """By the kind, and both versions."""
    live = [marked(rendered[0], version), *rendered[1:]]
    (sentence,) = newer_definitions(live, rendered)
    assert sentence == f"KaiwoConfig: the definition is of Kaiwo {version}, later than 1.2.3"


@pytest.mark.parametrize(
    "version", ["1.2.3", "1.2.3.0", "1.2.2", "1.2", "1.2.3rc1", "0.9", "", "nonsense", None]
)
def test_definitions_of_no_later_version_are_not_newer(rendered: list[Object], version: str | None) -> None:
    """The same version, an earlier one, a candidate of it, and definitions that do not say."""
    assert newer_definitions([marked(rendered[0], version)], rendered) == []


def test_an_unknown_version_of_the_kind_is_named_without_an_annotation(rendered: list[Object]) -> None:
    """One that is served, and one in which objects are stored although it is served no more."""
    live: Any = marked(rendered[1], None)
    live["spec"]["versions"].append({**live["spec"]["versions"][0], "name": "v1beta1", "storage": False})
    live["status"] = {"storedVersions": ["v1alpha1", "v2"]}
    assert newer_definitions([live], rendered) == [
        "KaiwoJob: version v1beta1 is served, which Kaiwo 1.2.3 does not know",
        "KaiwoJob: objects are stored in version v2, which Kaiwo 1.2.3 does not know",
    ]
