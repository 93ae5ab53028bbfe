"""One line for each change of a workload that is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli import kit
from kaiwo.client import workload_fields
from kaiwo.client.lookup import label

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object


def report_change(obj: Object) -> None:
    """Write status and message of a workload to standard error."""
    message = workload_fields.message(obj) or workload_fields.reason(obj)
    kit.say(f"{label(obj)} {workload_fields.word(obj)}" + (f": {message}" if message else ""))
