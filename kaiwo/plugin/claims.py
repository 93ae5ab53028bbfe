"""Which distribution a plugin name belongs to, decided before anything is imported.

Any installed distribution can announce any plugin name. A name loads only where one distribution has it,
where the distribution is named after the plugin, or where configuration names the distribution. A plugin that
the list of allowed plugins does not have never loads, where there is such a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kaiwo.plugin.allow_list import refusal
from kaiwo.plugin.selection import NAMES_VARIABLE, normalised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.plugin.discovery import Candidate
    from kaiwo.plugin.plugin_state import State
    from kaiwo.plugin.selection import PluginReference, PluginSelection

    LeftOut: TypeAlias = tuple[Candidate, State, str, str]

FIRST_PARTY = frozenset(
    {
        "aim",
        "batch_job",
        "deployment",
        "gpu_amd",
        "gpu_nvidia",
        "gpu_preemption",
        "kueue",
        "node_pools",
        "notify",
        "ray_job",
        "ray_service",
        "sandbox",
        "storage_s3_gcs_azure_git_hf",
    }
)
"""Names that are reserved for the project's own distributions, also where those are not installed."""


def own_distribution(name: str) -> str:
    """The distribution that is named after a plugin: ``kaiwo-batch-job`` for ``batch_job``."""
    return normalised(f"kaiwo-{name}")


def decide(
    candidates: Sequence[Candidate], selection: PluginSelection
) -> tuple[list[Candidate], list[LeftOut]]:
    """The candidates to load, and those left out with their state, the message and the reason as a word.

    Raises:
        SelectionError: an entry of the selection cannot be read.
    """
    left_out: list[LeftOut] = []
    allowed = selection.allowed_plugins()
    selected: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if selection.disables(candidate.name, candidate.distribution):
            left_out.append((candidate, "disabled", "disabled by configuration", "Disabled"))
        elif not selection.lists(candidate.name):
            left_out.append(
                (candidate, "not-selected", "not in the configured list of plugins", "NotSelected")
            )
        elif allowed is not None and (reason := refusal(candidate, allowed)):
            left_out.append((candidate, "not-allowed", reason, "NotAllowed"))
        else:
            selected.setdefault(candidate.name, []).append(candidate)
    chosen: list[Candidate] = []
    for name, claimants in selected.items():
        pins = selection.pins(name)
        owners, others = _pinned(claimants, pins) if pins else _unpinned(name, claimants)
        left_out += others
        if len(owners) > 1:
            message = _claimed(name, [owner.distribution for owner in owners])
            left_out += [(owner, "broken", message, "NameClaimed") for owner in owners]
        else:
            chosen += owners
    return chosen, left_out


def _pinned(
    claimants: Sequence[Candidate], pins: Sequence[PluginReference]
) -> tuple[list[Candidate], list[LeftOut]]:
    """The claimants from the distributions that configuration names."""
    owners: list[Candidate] = []
    others: list[LeftOut] = []
    names = " and ".join(map(str, pins))
    for claimant in claimants:
        own = [pin for pin in pins if pin.means(claimant.name, claimant.distribution)]
        if not own:
            others.append((claimant, "not-selected", f"configuration names {names}", "NotSelected"))
        elif any(pin.version not in ("", claimant.version) for pin in own):
            message = (
                f"configuration names {names}, and version {claimant.version} is installed; "
                "install the named version or change the configuration"
            )
            others.append((claimant, "broken", message, "VersionDiffers"))
        else:
            owners.append(claimant)
    return owners, others


def _unpinned(name: str, claimants: Sequence[Candidate]) -> tuple[list[Candidate], list[LeftOut]]:
    """The claimants of a name for which configuration names no distribution."""
    own = own_distribution(name)
    owners = [claimant for claimant in claimants if normalised(claimant.distribution) == own]
    if not owners and name not in FIRST_PARTY:
        return list(claimants), []
    return owners, [
        (
            claimant,
            "broken",
            _foreign(name, own, claimant.distribution),
            "NameClaimed",
        )
        for claimant in claimants
        if claimant not in owners
    ]


def _foreign(name: str, owner: str, distribution: str) -> str:
    return (
        f"plugin name {name} belongs to distribution {owner}; "
        f"uninstall {distribution}, or write {name}@{distribution} in {NAMES_VARIABLE}"
    )


def _claimed(name: str, distributions: Sequence[str]) -> str:
    return (
        f"plugin name {name} is claimed by {' and '.join(distributions)}; "
        f"write {name}@{distributions[0]} in {NAMES_VARIABLE}, or uninstall one of them"
    )
