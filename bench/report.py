"""One figure, and the table they make."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RESULTS = Path(__file__).parent / "results"
HEADER = "| what | measured | floor, same run | ratio | target | met |\n| --- | --- | --- | --- | --- | --- |"


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should hold: ``value`` compared with `limit`, as it stands or as a share of the floor."""

    limit: float
    sense: Literal["at least", "at most"] = "at most"
    of_floor: bool = False

    def met(self, value: float, floor: float | None) -> bool | None:
        """Whether it holds; None when there is no floor to compare with."""
        if self.of_floor:
            if not floor:
                return None
            value /= floor
        return value >= self.limit if self.sense == "at least" else value <= self.limit

    def text(self, unit: str) -> str:
        """As the table prints it."""
        sign = "≥" if self.sense == "at least" else "≤"
        return (
            f"{sign} {self.limit:.0%} of the floor"
            if self.of_floor
            else f"{sign} {number(self.limit)} {unit}".strip()
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        what: what was measured.
        value: the figure.
        unit: its unit.
        floor: the same figure of the floor, taken in the same run; None where a floor has no meaning.
        target: what should hold, None for a figure that is only reported.
    """

    what: str
    value: float
    unit: str
    floor: float | None = None
    target: Target | None = None

    def row(self) -> str:
        """The line in Markdown."""
        floor = "" if self.floor is None else f"{number(self.floor)} {self.unit}".strip()
        ratio = f"{self.value / self.floor:.2f}" if self.floor else ""
        met = self.target.met(self.value, self.floor) if self.target else None
        verdict = {True: "yes", False: "**no**", None: ""}[met]
        target = self.target.text(self.unit) if self.target else ""
        return (
            f"| {self.what} | {number(self.value)} {self.unit} | {floor} | {ratio} | {target} | {verdict} |"
        )


def number(value: float) -> str:
    """Three significant digits, no exponent."""
    if value == int(value):
        return f"{value:.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def markdown(facts: Mapping[str, str], figures: Sequence[Figure]) -> str:
    """Machine facts and the table."""
    lines = [f"* {name}: {value}" for name, value in facts.items()]
    return "\n".join([*lines, "", HEADER, *(figure.row() for figure in figures)])


def save(facts: Mapping[str, str], figures: Sequence[Figure]) -> Path:
    """Write the run to ``bench/results`` as Markdown and JSON, and return the path of the Markdown file."""
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / time.strftime("%Y%m%d-%H%M%S")
    stem.with_suffix(".md").write_text(markdown(facts, figures) + "\n", encoding="utf-8")
    data = {"facts": dict(facts), "figures": [asdict(figure) for figure in figures]}
    stem.with_suffix(".json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    return stem.with_suffix(".md")
