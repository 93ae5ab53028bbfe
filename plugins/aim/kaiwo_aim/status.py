"""The conditions of an AIMNamespaceConfig."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.workload import Condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo_aim.defaults import NamespaceConfig

IN_USE: Final = "InUse"
VALID: Final = "Valid"
ROUTES: Final = "RoutesReady"
OWN: Final = (IN_USE, VALID, ROUTES)

_SHOWN = 5


def conditions(
    config: NamespaceConfig, generation: int, *, in_use: str, routes: Condition | None
) -> list[Condition]:
    """The conditions of one object.

    Args:
        config: what it says.
        generation: of the object.
        in_use: name of the one that counts in its place; empty where it counts itself.
        routes: what became of its Gateway.
    """
    if in_use:
        text = f"AIMNamespaceConfig {in_use} is in use: the one named default counts, else the oldest"
        first = Condition(IN_USE, "False", "AnotherInUse", text, generation)
    else:
        first = Condition(IN_USE, "True", "InUse", "", generation)
    return [first, _valid(config, generation), *([routes] if routes else [])]


def _valid(config: NamespaceConfig, generation: int) -> Condition:
    if config.faults:
        return Condition(VALID, "False", "InvalidSpec", _listed(config.faults), generation)
    if config.unused:
        text = f"not used: {_listed(config.unused)}"
        return Condition(VALID, "True", "PartlyUsed", text, generation)
    return Condition(VALID, "True", "Valid", "", generation)


def routes_condition(
    problems: Mapping[str, tuple[str, str]], generation: int, *, installed: bool
) -> Condition:
    """What became of the routes of a namespace.

    Args:
        problems: reason and message by name of the KaiwoService.
        generation: of the AIMNamespaceConfig.
        installed: whether the cluster has HTTPRoutes.
    """
    if not installed:
        text = "the cluster serves no HTTPRoute; install the Gateway API, then the routes are made"
        return Condition(ROUTES, "False", "GatewayApiNotInstalled", text, generation)
    if not problems:
        return Condition(ROUTES, "True", "RoutesWritten", "", generation)
    found = sorted(problems.items())
    texts = tuple(f"KaiwoService {name}: {message}" for name, (_, message) in found)
    return Condition(ROUTES, "False", found[0][1][0], _listed(texts), generation)


def _listed(texts: tuple[str, ...]) -> str:
    more = len(texts) - _SHOWN
    shown = "; ".join(texts[:_SHOWN])
    return f"{shown}; and {more} more" if more > 0 else shown
