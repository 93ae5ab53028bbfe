"""What would be created for a workload, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from kaiwo.api.errors import InvalidConfig
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.plugin.settings import configured_vendors, read_settings
from kaiwo.testing.builders import NOW
from kaiwo.workload.gpus.nodes import expected_nodes, node_fact
from kaiwo.workload.labels import RESOLVED
from kaiwo.workload.model import Facts, Registry
from kaiwo.workload.namespace_defaults import values_in_use
from kaiwo.workload.plan import plan_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def render(
    workload: Object,
    plugins: Plugins,
    *,
    nodes: Sequence[Object] = (),
    config: Object | None = None,
    namespace_defaults: Sequence[Object] = (),
) -> str:
    """The objects that would be created for a workload, as YAML documents that are equal for equal input.

    The annotation in which the operator keeps what it resolved is left out: it has nothing that the objects
    do not show, and its form is no promise.

    Args:
        workload: a KaiwoJob or KaiwoService, see :func:`kaiwo.testing.job`.
        plugins: loaded plugins, see :func:`kaiwo.testing.plugins`.
        nodes: Nodes of the cluster, see :func:`kaiwo.testing.node`.
        config: the KaiwoConfig; the documented defaults without one.
        namespace_defaults: objects of the kinds of `NamespaceDefaults` in the workload's namespace.

    Raises:
        AssertionError: nothing would be created; with the workload's reason and message.
        kaiwo.api.errors.InvalidWorkload: the workload cannot be read.
        kaiwo.api.errors.InvalidConfig: the configuration cannot be used.
    """
    resolved = ResolvedConfig.from_object(config or {})
    settings, problems = read_settings(plugins.settings_models(), resolved.plugins)
    if problems:
        raise InvalidConfig(problems)
    vendors = configured_vendors(plugins, resolved.plugins)
    facts = Facts(
        now=NOW,
        config=resolved,
        nodes=(
            *(node_fact(node, vendors) for node in nodes),
            *expected_nodes(resolved, plugins.vendors),
        ),
        settings=settings,
        namespace_defaults=values_in_use(
            (declared, [obj for obj in namespace_defaults if obj.get("kind") == declared.kind.kind])
            for declared in plugins.namespace_defaults
        ),
    )
    planned = plan_object(workload, Registry.of(plugins), facts)
    if not planned.rendered:
        status = planned.statuses[-1] if planned.statuses else {}
        raise AssertionError(f"nothing would be created: {status.get('reason')}: {status.get('message')}")
    return yaml.dump_all(
        [_without_bookkeeping(rendered.child) for rendered in planned.rendered],
        Dumper=_Dumper,
        sort_keys=True,
        allow_unicode=True,
        width=110,
        explicit_start=len(planned.rendered) > 1,
    )


def _without_bookkeeping(child: Object) -> Object:
    metadata = dict(child.get("metadata", {}))
    annotations = {k: v for k, v in metadata.pop("annotations", {}).items() if k != RESOLVED}
    if annotations:
        metadata["annotations"] = annotations
    return {**child, "metadata": metadata}
