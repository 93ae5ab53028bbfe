"""What holds for all tests: their order, the settings of Hypothesis, and signals of the programs they start.

What needs no control plane comes first, so that plain mistakes show at once.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

# A busy machine is no defect, and what a fixture holds may be used for all examples of a test.
settings.register_profile(
    "kaiwo",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("kaiwo")

# A shell starts its background jobs with SIGINT ignored. Programs that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with tests of a control plane, wheels or environments last; a file stays together."""
    late = {item.path for item in items if _is_slow(item)}
    items.sort(key=lambda item: item.path in late)


def _is_slow(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("cluster", "node", "slow"))
