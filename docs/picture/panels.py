"""Draws the panels of the dashboard from what a Prometheus recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.dates import DateFormatter
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    from docs.picture.prometheus import Prometheus

_COLUMNS: Final = 3
_WIDTH: Final = 4.4
_HEIGHT: Final = 2.0
_TITLE: Final = 0.35
_SERIES: Final = 8
"""So many lines of a panel have a legend."""

_HEADROOM: Final = 1.4
"""For the legend, above the lines."""

_UNITS: Final = {"s": "seconds", "ops": "per second", "short": ""}


@dataclass(frozen=True, slots=True)
class Recording:
    """What is drawn.

    Attributes:
        source: answers the queries of the panels.
        begin: seconds since the epoch.
        end: seconds since the epoch.
    """

    source: Prometheus
    begin: float
    end: float


async def draw(
    dashboard: dict[str, Any], recording: Recording, rows: tuple[str, ...], file: Path
) -> list[str]:
    """Draw rows of the dashboard into a file.

    Args:
        dashboard: as Grafana imports it.
        recording: the time of which it is drawn.
        rows: titles of the rows.
        file: the picture.

    Returns:
        The titles of panels without a series.
    """
    sections = _sections(dashboard, rows)
    lines = sum(-(-len(panels) // _COLUMNS) for panels in sections.values())
    heights = []
    for panels in sections.values():
        heights += [_TITLE, *[_HEIGHT] * -(-len(panels) // _COLUMNS)]
    figure = Figure(figsize=(_COLUMNS * _WIDTH, sum(heights)), layout="constrained")
    grid = figure.add_gridspec(lines + len(sections), _COLUMNS, height_ratios=heights)
    empty, line = [], 0
    for title, panels in sections.items():
        head = figure.add_subplot(grid[line, :])
        head.axis("off")
        head.text(0, 0.3, title, fontsize=15, fontweight="bold")
        line += 1
        for number, panel in enumerate(panels):
            down, across = divmod(number, _COLUMNS)
            axes = figure.add_subplot(grid[line + down, across])
            if not await _panel(axes, panel, recording):
                empty.append(panel["title"])
        line += -(-len(panels) // _COLUMNS)
    figure.savefig(file, dpi=75)
    return empty


def _sections(dashboard: dict[str, Any], rows: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    title = ""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            title = panel["title"]
        elif title in rows:
            found.setdefault(title, []).append(panel)
    return found


async def _panel(axes: Any, panel: dict[str, Any], recording: Recording) -> int:
    """Draw one panel; how many series it has."""
    axes.set_title(panel["title"], fontsize=10, loc="left")
    count = 0
    for target in panel["targets"]:
        for series in await recording.source.series(target["expr"], recording.begin, recording.end):
            legend = _legend(target["legendFormat"], series["metric"])
            times = [datetime.fromtimestamp(at, UTC) for at, _ in series["values"]]
            name = legend if count < _SERIES else None
            axes.plot(times, [float(value) for _, value in series["values"]], label=name, linewidth=1.1)
            count += 1
    axes.set_xlim(*(datetime.fromtimestamp(at, UTC) for at in (recording.begin, recording.end)))
    axes.set_ylim(0, axes.get_ylim()[1] * _HEADROOM)
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=7)
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.set_ylabel(_UNITS[panel["fieldConfig"]["defaults"]["unit"]], fontsize=7)
    if count:
        axes.legend(fontsize=6, loc="upper left", frameon=False, ncols=2)
    else:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color="grey")
    return count


def _legend(form: str, labels: dict[str, str]) -> str:
    """Grafana's form of a legend, with the labels of a series."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)
