"""What a shell offers behind an option: namespaces, contexts, queues, users, fields and plugins.

Each function is silent when the cluster does not answer at once: a tab must never print an error over the
line that is being typed.
"""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from shlex import quote
from typing import TYPE_CHECKING, TypeAlias

from kaiwo.cli.options import settings, use_configured_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click

    from kaiwo.cli.kit import Cluster

    Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]

_SECONDS = 2.0
"""How long the cluster may take; nobody waits longer for a tab."""


def namespaces(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of namespaces."""
    del param

    def read(cluster: Cluster) -> Iterable[str]:
        from kaiwo.engine.resource import NAMESPACE

        return [obj["metadata"]["name"] for obj in cluster.list(NAMESPACE)]

    return _asked(ctx, incomplete, read)


def contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Contexts of the kubeconfig."""
    del param
    try:
        from kaiwo.engine.credentials import context_names

        return _beginning(context_names(settings(ctx).kubeconfig), incomplete)
    except Exception:  # noqa: BLE001  a shell that completes must never print an error
        return []


def queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Queues of the queue system, and those that workloads name."""
    del param

    def read(cluster: Cluster) -> Iterable[str]:
        from kaiwo.cli import kit
        from kaiwo.client.kinds import WORKLOADS
        from kaiwo.client.workload_fields import queue
        from kaiwo.engine.errors import ApiError

        system = kit.plugins().queue_system
        kinds = [kind for kind in system.reads if kind.kind.endswith("Queue")] if system else []
        found: set[str] = set()
        for kind in kinds:
            try:
                scope = cluster.scope if kind.namespaced else None
                found |= {obj["metadata"]["name"] for obj in cluster.list(kind, scope)}
            except ApiError:
                continue
        return found | {queue(obj) for kind in WORKLOADS for obj in cluster.list(kind, cluster.scope)}

    return _asked(ctx, incomplete, read)


def gpu_vendors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """GPU vendors of the loaded plugins."""
    del ctx, param
    try:
        from kaiwo.cli import kit

        return _beginning((vendor.name for vendor in kit.plugins().vendors), incomplete)
    except Exception:  # noqa: BLE001  a shell that completes must never print an error
        return []


def node_pools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Pools of the nodes."""
    del param

    def read(cluster: Cluster) -> Iterable[str]:
        from kaiwo.engine.resource import NODE
        from kaiwo.workload.gpus.node_pools import NODEPOOL

        return [obj["metadata"].get("labels", {}).get(NODEPOOL, "") for obj in cluster.list(NODE)]

    return _asked(ctx, incomplete, read)


def users(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Users of the workloads of a namespace, and the one in kaiwoconfig.yaml."""
    del param

    def read(cluster: Cluster) -> Iterable[str]:
        from kaiwo.client.kinds import WORKLOADS
        from kaiwo.client.workload_fields import user

        return {user(obj) for kind in WORKLOADS for obj in cluster.list(kind, cluster.scope)}

    return sorted({*_asked(ctx, incomplete, read), *_beginning([_own_user(ctx)], incomplete)})


def assignments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Fields below ``spec`` for ``--set``, with the equals sign."""
    del ctx, param
    try:
        from kaiwo.api.kind_models import compose, sections
        from kaiwo.cli import kit

        fields = kit.plugins().fields()
        found = {
            ".".join((*above[1:], name)) + "="
            for kind in ("KaiwoJob", "KaiwoService")
            for above, names in sections(compose(kind, fields), "spec")
            for name in names
        }
    except Exception:  # noqa: BLE001  a shell that completes must never print an error
        return []
    return _beginning(found, incomplete)


def plugin_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Installed plugins; in a list with commas the one that is being typed."""
    del ctx, param
    try:
        from kaiwo.cli import kit

        before, comma, last = incomplete.rpartition(",")
        names = _beginning((state.name for state in kit.plugins().states), last)
    except Exception:  # noqa: BLE001  a shell that completes must never print an error
        return []
    return [f"{before}{comma}{name}" for name in names]


def _asked(ctx: click.Context, incomplete: str, read: Callable[[Cluster], Iterable[str]]) -> list[str]:
    from kaiwo.cli import kit
    from kaiwo.client import user_config

    try:
        # Nor may a credential plugin write there, or ask.
        with redirect_stderr(StringIO()), ctx.scope():
            use_configured_namespace(user_config.load(ctx.params.get("config")))
            with kit.cluster(timeout=_SECONDS) as cluster:
                return _beginning(read(cluster), incomplete)
    except Exception:  # noqa: BLE001  a shell that completes must never print an error
        return []


def _own_user(ctx: click.Context) -> str:
    from kaiwo.client import user_config

    try:
        return user_config.load(ctx.params.get("config")).user or ""
    except Exception:  # noqa: BLE001  a shell that completes must never print an error
        return ""


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that go on from what is typed.

    bash puts a name on the line as it is. Somebody else wrote it, so one that a shell would read as more than
    a word, as ``$(...)``, is not offered.
    """
    return sorted({name for name in names if name.startswith(incomplete) and name == quote(name)})
