"""One scrape of the metrics endpoint, as those who follow it get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.workload.monitoring.samples import Samples


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape.

    Attributes:
        samples: what was read, None where the scrape failed.
        clock: when, in seconds of a clock that is never set.
        now: when, UTC.
        interrupted: nobody read before it for so long that what was known then says nothing about the time
            between.
    """

    samples: Samples | None
    clock: float
    now: datetime
    interrupted: bool = False
