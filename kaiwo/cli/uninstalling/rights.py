"""Asks whether the caller may do what an uninstallation does, before it does any of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.api.crds import WORKLOADS
from kaiwo.cli.failures import Failure
from kaiwo.engine.access_review import is_allowed
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD
from kaiwo.install.inventory import LABELLED_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.removals import Removal


class RemovalRight(NamedTuple):
    """A right that an uninstallation needs.

    Attributes:
        verb: as in RBAC.
        resource: the kind.
        namespace: where; empty for the whole cluster.
    """

    verb: str
    resource: Resource
    namespace: str = ""

    def __str__(self) -> str:
        """``delete roles.rbac.authorization.k8s.io in namespace team``."""
        where = f"in namespace {self.namespace}" if self.namespace else "in the cluster"
        return f"{self.verb} {self.resource} {where}"


READING: tuple[RemovalRight, ...] = tuple(
    RemovalRight("list", kind)
    for kind in (*LABELLED_KINDS, *WORKLOADS.values(), CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD)
)
"""What is read before it is known what there is."""


async def require(client: Client, rights: Iterable[RemovalRight]) -> None:
    """Ask the API server for rights.

    Args:
        client: of the cluster.
        rights: what is needed.

    Raises:
        Failure: some are missing; it names all of them.
    """
    asked = list(dict.fromkeys(rights))
    answers = await asyncio.gather(
        *(is_allowed(client, right.verb, right.resource, right.namespace) for right in asked)
    )
    missing = [str(right) for right, allowed in zip(asked, answers, strict=True) if not allowed]
    if missing:
        raise Failure(
            "nothing was removed; you are not allowed to:\n" + "\n".join(missing),
            "run kaiwo uninstall as an administrator of the cluster",
        )


def needed(removals: Iterable[Removal]) -> list[RemovalRight]:
    """The rights that removals need."""
    return [
        RemovalRight("delete" if item.patch is None else "patch", item.resource, item.namespace)
        for item in removals
    ]
