"""The report of ``kaiwo report`` as a table and as CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import click

from kaiwo.cli.output.responsive import BAD, Cell, write_rows
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from kaiwo.client.report import GpuReport, ReportRow

_FORMULA = ("=", "+", "-", "@")


def write_report(found: GpuReport) -> None:
    """Write the table, with the sum of all rows below it."""
    titles = (found.by.upper(), "WORKLOADS", "RESERVED", "USED", "IDLE", "WAITING", "UNCLEAR")
    write_rows(titles, [_cells(row) for row in (*found.items, found.total)])
    if found.used_by_others:
        click.echo(f"\n{found.used_by_others:.1f} GPU-hours used by pods of no workload that exists")


def _cells(row: ReportRow) -> tuple[Cell | str, ...]:
    mostly = row.gpu_hours_idle is not None and row.gpu_hours_idle * 2 > row.gpu_hours_reserved > 0
    return (
        row.group or "(none)",
        str(row.workloads),
        f"{row.gpu_hours_reserved:.1f}",
        _number(row.gpu_hours_used),
        Cell(_number(row.gpu_hours_idle), BAD if mostly else ""),
        f"{row.gpu_hours_waiting:.1f}",
        f"{row.gpu_hours_unclear:.1f}",
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def to_csv(found: GpuReport) -> str:
    """The rows as CSV with a header, without the sum; an unknown figure is empty.

    A name that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        (
            found.by,
            "workloads",
            "gpu_hours_reserved",
            "gpu_hours_used",
            "gpu_hours_idle",
            "gpu_hours_waiting",
            "gpu_hours_unclear",
            "start",
            "end",
        )
    )
    for row in found.items:
        group = clean(row.group)
        writer.writerow(
            (
                f"'{group}" if group.startswith(_FORMULA) else group,
                row.workloads,
                row.gpu_hours_reserved,
                "" if row.gpu_hours_used is None else row.gpu_hours_used,
                "" if row.gpu_hours_idle is None else row.gpu_hours_idle,
                row.gpu_hours_waiting,
                row.gpu_hours_unclear,
                found.start,
                found.end,
            )
        )
    return text.getvalue()
