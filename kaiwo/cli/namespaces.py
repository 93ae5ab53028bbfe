"""Whether the namespace of a command exists."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kaiwo.cli.failures import NOT_FOUND, Failure

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster


def check_namespace(cluster: Cluster) -> None:
    """Tell an empty namespace from one that does not exist.

    Raises:
        Failure: there is no such namespace. Without the right to read namespaces nothing is checked.
    """
    from kaiwo.engine.errors import Forbidden, NotFound
    from kaiwo.engine.resource import NAMESPACE

    if cluster.everywhere:
        return
    with suppress(Forbidden):
        try:
            cluster.get(NAMESPACE, None, cluster.namespace)
        except NotFound:
            raise Failure(
                f'namespace "{cluster.namespace}" not found', "kubectl get namespaces", code=NOT_FOUND
            ) from None
