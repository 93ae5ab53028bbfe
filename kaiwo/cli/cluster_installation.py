"""What is installed in a cluster, as far as it decides what is rendered for it, and what an apply leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo.cli import kit
from kaiwo.cli.failures import Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.install.inventory import InstalledObject
    from kaiwo.plugin.registry import Plugins

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ClusterInstallation:
    """What is installed.

    Attributes:
        crds: all CRDs.
        config: the KaiwoConfig, None where there is none.
        version: of the API server.
        plugins: names of the plugins of the operator in the namespace of the installation.
        objects: objects with the labels of that installation, but for those of further shards.
        workloads: KaiwoJobs and KaiwoServices.
    """

    crds: Sequence[Object]
    config: Object | None
    version: str
    plugins: tuple[str, ...]
    objects: tuple[InstalledObject, ...]
    workloads: tuple[Object, ...]


def read_installation(namespace: str) -> ClusterInstallation:
    """Read what is installed in the cluster of the kubeconfig.

    Args:
        namespace: of the installation.
    """
    from kaiwo.api.config_names import SHARD_LABEL, SINGLETON
    from kaiwo.api.crds import KAIWO_CONFIG
    from kaiwo.engine.errors import NotFound
    from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION

    async def more(client: Client) -> tuple[list[tuple[InstalledObject, Object]], list[Object]]:
        from kaiwo.cli.uninstalling.live_objects import labelled
        from kaiwo.install.inventory import COMPARED_KINDS

        objects = [pair async for pair in labelled(client, namespace, COMPARED_KINDS)]
        return objects, [obj async for obj in _workloads(client)]

    with kit.cluster() as cluster:
        try:
            config: Object | None = cluster.get(KAIWO_CONFIG, None, SINGLETON)
        except NotFound:
            config = None
        objects, workloads = cluster.run(more)
        return ClusterInstallation(
            cluster.list(CUSTOM_RESOURCE_DEFINITION),
            config,
            str(cluster.get_json("/version").get("gitVersion", "")),
            _plugins_of(objects),
            tuple(item for item, obj in objects if SHARD_LABEL not in obj["metadata"].get("labels", {})),
            tuple(workloads),
        )


async def _workloads(client: Client) -> AsyncIterator[Object]:
    from kaiwo.api.crds import WORKLOADS
    from kaiwo.engine.errors import Forbidden, NotFound

    for kind in WORKLOADS.values():
        try:
            async for obj in client.list(kind):
                yield obj
        except (NotFound, Forbidden):
            continue  # not served yet, or not for this user


def _plugins_of(objects: Sequence[tuple[InstalledObject, Object]]) -> tuple[str, ...]:
    from kaiwo.api.installation import OPERATOR
    from kaiwo.cli.uninstalling.plan import operator_fact
    from kaiwo.engine.resource import DEPLOYMENT

    found = [obj for item, obj in objects if (item.resource, item.name) == (DEPLOYMENT, OPERATOR)]
    return operator_fact(found[0]).plugins if found else ()


def plugin_settings(config: Object | None) -> Mapping[str, Mapping[str, Any]]:
    """``spec.plugins`` of a KaiwoConfig; what has another shape there counts as absent."""
    from kaiwo.workload.json_access import lenient_map

    sections = lenient_map(lenient_map((config or {}).get("spec")).get("plugins"))
    return {name: lenient_map(section) for name, section in sections.items()}


def require_not_newer(before: Sequence[Object], crds: Sequence[Object]) -> None:
    """Definitions of a later version are not replaced by earlier ones.

    Args:
        before: definitions that are installed.
        crds: definitions of this version.

    Raises:
        Failure: what is installed comes from a later version.
    """
    from kaiwo.api.crd_versions import newer_definitions

    if newer := newer_definitions(before, crds):
        raise Failure(
            "the installed CRDs are of a later version of Kaiwo:\n" + "\n".join(newer),
            "install that version here; to go back to this one leave the CRDs as they are: "
            "kaiwo manifests rbac operator scheduler",
        )


def warn_of_version(image: str, server: str) -> None:
    """Warn of a scheduler that does not fit the API server.

    Args:
        image: of the scheduler.
        server: version of the API server.
    """
    from kaiwo.install.scheduler import version_problem

    if problem := version_problem(image, server):
        kit.say(f"warning: {problem}")
        kit.say("hint: name another image with --scheduler-image")


def warn_of_left_out(found: ClusterInstallation, loaded: Plugins) -> None:
    """Warn of plugins that the operator has now and of stored values that no chosen plugin declares.

    Args:
        found: what is installed.
        loaded: the chosen plugins.
    """
    from kaiwo.api.crd_compat import undeclared_fields

    chosen = {plugin.name for plugin in loaded.loaded}
    if gone := [name for name in found.plugins if name not in chosen]:
        kit.say(
            f"warning: plugins of the operator are left out: {', '.join(gone)}; their running workloads stay "
            "as they are, and new ones do not start"
        )
    for kind, path in undeclared_fields(found.crds, loaded.crds()):
        if having := [_name(obj) for obj in found.workloads if obj["kind"] == kind and _has(obj, path)]:
            kit.say(
                f"warning: no chosen plugin declares {kind} {'.'.join(path)}; {_some(having)} have it. Their "
                "values stay and are no longer checked"
            )


def warn_of_leftovers(found: ClusterInstallation, rendered: Collection[Object]) -> None:
    """Warn of objects of the installation that are not rendered any more: applying removes nothing.

    Args:
        found: what is installed.
        rendered: all objects that are applied.
    """
    names = {(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in rendered}
    left = [
        item
        for item in found.objects
        if not item.is_kept_by_program and (item.resource.kind, item.namespace, item.name) not in names
    ]
    if not left:
        return
    kit.say("warning: objects of an earlier installation stay; applying removes nothing")
    for item in left:
        kit.say(f"hint: {item.delete_command}")


def _has(obj: Object, path: Sequence[str]) -> bool:
    value: object = obj
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _name(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
