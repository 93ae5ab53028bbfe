"""Defines rendered objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object


@dataclass(frozen=True, slots=True)
class RenderedManifest:
    """One object to install.

    Attributes:
        obj: the object.
        whys: for an object with ``rules``: why each of them is there, one or several clauses, in their order.
    """

    obj: Object
    whys: tuple[tuple[str, ...], ...] = ()

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The key of the object in a cluster: version, kind, namespace, name."""
        metadata = self.obj["metadata"]
        return (self.obj["apiVersion"], self.obj["kind"], metadata.get("namespace", ""), metadata["name"])
