"""Whether the operator and this command line have the same plugins in the same versions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.client.doctor.result import ok, some, warning
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.client.doctor.result import DoctorCheck
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

_FIX = (
    "install the operator's versions here (pip install NAME==VERSION), or as an administrator upgrade the "
    "operator: kaiwo manifests --from-cluster | kubectl apply --server-side -f -"
)


def judge_versions(config: Object | None, here: Mapping[str, str]) -> list[DoctorCheck]:
    """Compare the plugins that the operator reports with those that are loaded here.

    What is loaded here alone is no difference: the operator's plugins are an administrator's choice.

    Args:
        config: the KaiwoConfig, None for one that does not exist.
        here: name and version of the plugins that are loaded here.
    """
    operators = _loaded_by_operator(config)
    if not operators:
        return []
    missing = [f"{name} {version}".strip() for name, version in operators.items() if name not in here]
    other = [
        f"{name} {version}, here {here[name]}"
        for name, version in operators.items()
        if version and here.get(name, version) != version
    ]
    found = []
    if other:
        found.append(warning("versions", f"the operator runs other versions: {some(other)}", _FIX))
    if missing:
        text = f"the operator runs plugins that are not loaded here: {some(missing)}"
        found.append(warning("versions", f"{text}; commands do not know their fields", _FIX))
    return found or [ok("versions", f"{len(operators)} plugins as in the operator")]


def shared_with_operator(plugins: Plugins, config: Object | None) -> Plugins:
    """The plugins loaded here that the operator loads, too; all of them where it reports none.

    Args:
        plugins: loaded here.
        config: the KaiwoConfig, None for one that does not exist or cannot be read.
    """
    operators = _loaded_by_operator(config)
    shared = tuple(plugin for plugin in plugins.loaded if plugin.name in operators)
    return replace(plugins, loaded=shared) if operators else plugins


def _loaded_by_operator(config: Object | None) -> dict[str, str]:
    """Name and version of each plugin that the operator reports as loaded."""
    return {
        str(one.get("name")): str(one.get("version") or "")
        for one in lenient_maps(lenient_map((config or {}).get("status")).get("plugins"))
        if one.get("state") == "loaded"
    }
