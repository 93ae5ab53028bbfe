"""Whether the operator and this command line have the same plugins in the same versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.client.doctor.result import ok, some, warning
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.client.doctor.result import DoctorCheck
    from kaiwo.engine.resource import Object

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
    reported = lenient_maps(lenient_map((config or {}).get("status")).get("plugins"))
    operators = {
        str(one.get("name")): str(one.get("version") or "")
        for one in reported
        if one.get("state") == "loaded"
    }
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
