"""What the parts of the controller have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kaiwo.plugin.kit.controllers import Manager
    from kaiwo.plugin.kit.endings import EndingService
    from kaiwo_gpu_preemption.owners import OwnerMetadata, OwnerReader
    from kaiwo_gpu_preemption.policy import TrackingPolicy


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the parts of the controller have in common.

    Attributes:
        manager: reads and writes.
        endings: takes decisions, and knows which are being carried out.
        owners: reads root owners.
        policy_of: what holds for a root owner by its annotations.
        clock: monotonic seconds.
        now: the time.
    """

    manager: Manager
    endings: EndingService
    owners: OwnerReader
    policy_of: Callable[[OwnerMetadata], TrackingPolicy | None]
    clock: Callable[[], float]
    now: Callable[[], datetime]
