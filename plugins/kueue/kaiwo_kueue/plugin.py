"""The plugin ``kueue``: its settings. A queue system is declared here once it can assign queues."""

from __future__ import annotations

from kaiwo.plugin import hookimpl
from kaiwo.plugin.lifecycle import Lifecycle

KAIWO_API = 1


@hookimpl
def kaiwo_lifecycle() -> list[Lifecycle]:
    """Nothing to start or stop; it carries the settings model into KaiwoConfig's schema."""
    from kaiwo_kueue.settings import KueueSettings  # noqa: PLC0415 - needs pydantic, which a start may not need

    return [Lifecycle(name="kueue", settings=KueueSettings)]
