"""Says which version of Kaiwo rendered a CRD, and whether live CRDs come from a later one."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from kaiwo.api.workload import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.engine.resource import Object

VERSION: Final = f"{GROUP}/version"
"""Annotation of a rendered definition: the version of Kaiwo that rendered it."""


@cache
def own_version() -> str:
    """The version of Kaiwo that runs."""
    return version("kaiwo")


def newer_definitions(live: Iterable[Object], rendered: Iterable[Object]) -> list[str]:
    """What of live definitions comes from a later version than rendered ones; one sentence each.

    A definition without the annotation was rendered before there was one. A version that is served or stored,
    and that is not rendered, is unknown here whatever the annotation says.

    Args:
        live: definitions as the API server has them.
        rendered: those of this version.
    """
    wanted = {crd["metadata"]["name"]: crd for crd in rendered}
    pairs = [(crd, wanted[crd["metadata"]["name"]]) for crd in live if crd["metadata"]["name"] in wanted]
    return [sentence for found, ours in pairs for sentence in _newer(found, ours)]


def _newer(live: Object, rendered: Object) -> Iterator[str]:
    kind = rendered["spec"]["names"]["kind"]
    theirs, ours = version_of(live), version_of(rendered)
    if _order(theirs) > _order(ours):
        yield f"{kind}: the definition is of Kaiwo {theirs}, later than {ours}"
    known = {each["name"] for each in rendered["spec"]["versions"]}
    served = {each["name"] for each in live["spec"].get("versions") or ()}
    for name in sorted(served - known):
        yield f"{kind}: version {name} is served, which Kaiwo {ours} does not know"
    stored = set((live.get("status") or {}).get("storedVersions") or ())
    for name in sorted(stored - known):
        yield f"{kind}: objects are stored in version {name}, which Kaiwo {ours} does not know"


def version_of(crd: Object) -> str:
    """The version of Kaiwo that rendered a definition, empty where it does not say."""
    return str((crd["metadata"].get("annotations") or {}).get(VERSION) or "")


def _order(text: str) -> tuple[tuple[int, ...], bool]:
    """What versions are compared by: the numbers, and a release after its candidates."""
    numbers = re.match(r"\d+(?:\.\d+)*", text)
    if numbers is None:
        return (), False
    release = [int(part) for part in numbers[0].split(".")]
    while release and not release[-1]:
        release.pop()
    return tuple(release), not re.match(r"[.-]?(?:a|b|rc|dev|alpha|beta)", text[numbers.end() :])
