"""What a check of the conformance suite gets and returns, and what is reported of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.testing.conformance.fresh_process import FreshProcess
    from kaiwo.testing.conformance.probing import ProbeReport

CheckState: TypeAlias = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that a plugin does and must not, or lacks and needs.

    Attributes:
        where: the declaration, the field, or the function (``backend acme_run: render``).
        what: what is wrong, in one clause.
        why: what follows from it.
        next_step: what to do about it.
    """

    where: str
    what: str
    why: str
    next_step: str


@dataclass(frozen=True, slots=True)
class CheckInput:
    """What a check gets.

    Attributes:
        plugin: the plugin, loaded without any other.
        report: what calling its functions showed.
        fresh: what it did in a process of its own.
    """

    plugin: LoadedPlugin
    report: ProbeReport
    fresh: FreshProcess


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """What a check returns.

    Attributes:
        message: what was checked, in a few words; empty where the plugin has nothing of the kind.
        violations: what is wrong.
    """

    message: str
    violations: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True)
class ConformanceResult:
    """The outcome of one check of one plugin.

    Attributes:
        plugin: the plugin's name.
        check: the check's name.
        state: ``skipped`` where the plugin has nothing that the check is about.
        message: what was checked, in a few words.
        violations: what is wrong; empty unless it failed.
    """

    plugin: str
    check: str
    state: CheckState
    message: str
    violations: tuple[Violation, ...] = ()
