"""What a check of the conformance suite gets and returns, and what is reported of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.plugin.registry import LoadedPlugin

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


@dataclass(slots=True)
class ProbeReport:
    """What calling the functions of a plugin showed.

    Attributes:
        functions: how many functions there are.
        calls: how often they were called.
        slowest: CPU seconds of the slowest call.
        impure: violations of purity.
        partial: violations of totality.
        slow: violations of the time limit.
        outputs: by function digests of the watched cases and their results, which are equal in any process.
    """

    functions: int = 0
    calls: int = 0
    slowest: float = 0.0
    impure: list[Violation] = field(default_factory=list)
    partial: list[Violation] = field(default_factory=list)
    slow: list[Violation] = field(default_factory=list)
    outputs: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FreshProcess:
    """What a process that only loaded one plugin found.

    Attributes:
        import_seconds: CPU of importing the plugin's module.
        imported: libraries that importing the module brought in.
        imported_by_hooks: libraries that calling the hooks brought in besides.
        outputs: by function the results of the watched cases.
        error: why it ended early; empty if it did not.
    """

    import_seconds: float = 0.0
    imported: Sequence[str] = ()
    imported_by_hooks: Sequence[str] = ()
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    error: str = ""


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
