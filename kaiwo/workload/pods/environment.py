"""Environment variables of the primary container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.spec_rules import ALLOCATION_VARIABLES
from kaiwo.workload.json_access import as_maps
from kaiwo.workload.namespace_defaults import DEFAULTS_ORIGIN, default_variables
from kaiwo.workload.storage.volumes import HF, volumes

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import RenderInput
    from kaiwo.workload.pods.origins import Origins


def set_environment(container: Object, inp: RenderInput, path: str, origins: Origins) -> None:
    """Give the primary container its environment, in place.

    The order is: the template's own list with ``spec.env`` replacing equal names in place, new names of
    ``spec.env``, ``HF_HOME`` where there is a Hugging Face volume and nobody set it, the defaults of the
    namespace, and then the numbers of the GPU allocation, which always have our values.

    Raises:
        SpecError: the container's own list is none.
    """
    allocation = inp.resolved.allocation
    amounts = allocation.gpus, allocation.replicas, allocation.gpus_per_replica
    numbers = dict(zip(ALLOCATION_VARIABLES, map(str, amounts), strict=True))
    merged: dict[object, tuple[Object, str]] = {}
    for position, item in enumerate(as_maps(container.get("env"), f"{path}.env")):
        name = item.get("name")
        merged[name if isinstance(name, str) else position] = (item, "")
    for variable in inp.workload.spec.env or ():
        merged[variable.name] = (variable.dump(), "spec.env")
    for volume in volumes(inp.workload, inp.resolved):
        if volume.name == HF and "HF_HOME" not in merged:
            merged["HF_HOME"] = ({"name": "HF_HOME", "value": volume.mount_path}, volume.path)
    for name in numbers:
        merged.pop(name, None)
    defaults = default_variables(inp.workload, inp.resolved, merged) if inp.resolved.variables else {}
    for name, default in defaults.items() if not container.get("envFrom") else ():
        merged[name] = (default, "")
        origins.note(f"{path}.env[{len(merged) - 1}]", "plugin", DEFAULTS_ORIGIN)
    for position, (_, field) in enumerate(merged.values()):
        if field:
            origins.note(f"{path}.env[{position}]", "user", field)
    for position in range(len(merged), len(merged) + len(numbers)):
        origins.note(f"{path}.env[{position}]", "nodes", "the GPU allocation")
    container["env"] = [
        *(item for item, _ in merged.values()),
        *({"name": name, "value": value} for name, value in numbers.items()),
    ]
