"""The public module for commands, those of plugins too.

A command reports an error by raising `Failure`, writes notes with `say`, and reaches the cluster with
`Cluster`. The options that every command takes are in `settings`::

    @click.command()
    @click.argument("name")
    def sizes(name: str) -> None:
        with kit.cluster() as cluster:
            node = cluster.get(NODE, None, name)
        kit.emit([node])
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kaiwo.cli.failures import FAILED, INTERRUPTED, NOT_FOUND, OK, TIMED_OUT, USAGE, Failure
from kaiwo.cli.options import Format, GlobalOptions, settings
from kaiwo.cli.output.objects import emit
from kaiwo.cli.output.progress import erase, progress
from kaiwo.cli.output.serialization import dump
from kaiwo.cli.output.table import Column
from kaiwo.cli.terminal import STATUS_COLORS, clean, styled_status
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.submission import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from kaiwo.engine.client import Client, Propagation
    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.registry import Plugins

__all__ = [
    "FAILED",
    "FIELD_MANAGER",
    "INTERRUPTED",
    "NOT_FOUND",
    "OK",
    "STATUS_COLORS",
    "TIMED_OUT",
    "USAGE",
    "WORKLOADS",
    "Cluster",
    "Column",
    "Failure",
    "Format",
    "GlobalOptions",
    "clean",
    "cluster",
    "complete_names",
    "connection",
    "dump",
    "emit",
    "plugins",
    "progress",
    "say",
    "settings",
    "styled_status",
    "warn_broken",
]

T = TypeVar("T")


def say(text: str, *, level: int = 0) -> None:
    """Write a note that is not data to standard error.

    Args:
        text: one or several lines.
        level: 0 is silenced by ``-q``; 1 is written with ``-v`` only.
    """
    if settings().verbosity >= level:
        erase()
        click.echo(clean(text, keep="\n"), err=True)


class Cluster:
    """An API server, for code that waits for every answer. Errors are the engine's.

    Attributes:
        namespace: the one given with ``-n``, else the context's.
        everywhere: whether ``-A`` was given.
    """

    def __init__(self, runner: asyncio.Runner, client: Client, namespace: str, *, everywhere: bool) -> None:
        self._runner = runner
        self._client = client
        self.namespace = namespace
        self.everywhere = everywhere

    @property
    def api(self) -> Client:
        """The asynchronous client, for coroutines that `run` runs."""
        return self._client

    @property
    def scope(self) -> str | None:
        """The namespace to list, None for all."""
        return None if self.everywhere else self.namespace

    def run(self, use: Callable[[Client], Awaitable[T]]) -> T:
        """Run asynchronous code with the client, for example many requests at once."""

        async def call() -> T:
            return await use(self._client)

        return self._runner.run(call())

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object; raises `NotFound`."""
        return self.run(lambda client: client.get(resource, namespace, name))

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[Object]:
        """All objects of a kind, of one namespace or of all."""

        async def collect(client: Client) -> list[Object]:
            found = client.list(
                resource, namespace, label_selector=label_selector, field_selector=field_selector
            )
            return [obj async for obj in found]

        return self.run(collect)

    def apply(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        """Server-side apply as the command line's field manager; fields left out since last time go."""
        return self.run(
            lambda client: client.apply(
                resource, obj, field_manager=FIELD_MANAGER, field_validation="Strict", dry_run=dry_run
            )
        )

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation: Propagation | None = None,
    ) -> Object:
        """Delete an object; raises `NotFound`."""
        return self.run(
            lambda client: client.delete(resource, namespace, name, uid=uid, propagation=propagation)
        )

    def served(self, *resources: Resource) -> frozenset[Resource]:
        """Which of the kinds the cluster knows."""
        return self.run(lambda client: client.served(resources))

    def get_json(self, path: str) -> Object:
        """GET any path, for example ``/version``."""
        return self.run(lambda client: client.get_json(path))


def connection() -> Connection:
    """How to reach the cluster that the user means; nothing is sent.

    Raises:
        Failure: no usable kubeconfig.
    """
    from kaiwo.engine import credentials

    chosen = settings()
    return credentials.load(chosen.kubeconfig, chosen.context)


@contextmanager
def cluster(timeout: float = 30.0, *, connections: int = 32) -> Iterator[Cluster]:
    """Connect to the cluster of the kubeconfig's context (or --context, --kubeconfig).

    Args:
        timeout: seconds for one request.
        connections: how many are open at once; each costs a handshake.

    Raises:
        CredentialsError: no usable kubeconfig.
    """
    reached = connection()
    from kaiwo.engine.client import Client

    chosen = settings()
    with asyncio.Runner() as runner:

        async def connect() -> Client:
            # A credential plugin that asks has the terminal for itself, and as long as the answer takes.
            await reached.headers()
            return Client(reached, user_agent=FIELD_MANAGER, timeout=timeout, concurrency=connections)

        client = runner.run(connect())
        try:
            yield Cluster(
                runner, client, chosen.namespace or reached.namespace, everywhere=chosen.all_namespaces
            )
        finally:
            runner.run(client.close())


def plugins(names: str | None = None) -> Plugins:
    """Load the selected plugins (KAIWO_PLUGINS, KAIWO_PLUGINS_DISABLED).

    Args:
        names: a list that wins over the environment's, names separated by commas.

    Raises:
        Failure: the selection cannot be read, or a required plugin is not loaded.
    """
    from kaiwo.plugin.loader import RequiredPluginError, load
    from kaiwo.plugin.selection import PluginSelection, SelectionError

    try:
        return load(PluginSelection.of(flag=names, environ=os.environ))
    except (SelectionError, RequiredPluginError) as error:
        raise Failure(str(error), "kaiwo plugins") from error


def warn_broken(loaded: Plugins) -> None:
    """Warn about plugins that are installed and do not load: their fields and kinds are missing."""
    for state in loaded.states:
        if state.state == "broken":
            say(f"warning: plugin {state.name} does not load: {state.message}")


def complete_names(kinds: Sequence[Any]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """A shell completion of live names; silent when the cluster does not answer at once."""

    def names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        del param
        from kaiwo.cli.options import use_configured_namespace
        from kaiwo.client import user_config

        try:
            with ctx.scope():
                use_configured_namespace(user_config.load(ctx.params.get("config")))
            # Nor may a credential plugin write there, or ask.
            with redirect_stderr(StringIO()), ctx.scope(), cluster(timeout=2.0) as live:
                found = [obj["metadata"]["name"] for kind in kinds for obj in live.list(kind, live.scope)]
        except Exception:  # noqa: BLE001  a shell that completes must never print an error
            return []
        return sorted(name for name in set(found) if name.startswith(incomplete))

    return names
