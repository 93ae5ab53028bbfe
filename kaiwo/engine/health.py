"""Health checks of one process, for /readyz and for metrics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kaiwo.engine.metric_definitions import FAILING_WRITES, HEALTH_CHECK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric

    from kaiwo.engine.errors import WriteCause


class Health:
    """What /healthz and /readyz say, as named checks."""

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[], tuple[bool, str]]] = {}

    def check(self, name: str, state: Callable[[], tuple[bool, str]]) -> None:
        """Add a check.

        Args:
            name: what is checked.
            state: returns whether all is well, and a word or sentence about it.
        """
        self._checks[name] = state

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Whether all checks succeed, and the message of each."""
        states = {name: state() for name, state in self._checks.items()}
        return all(well for well, _ in states.values()), {name: text for name, (_, text) in states.items()}

    def states(self) -> dict[str, bool]:
        """Whether each check succeeds."""
        return {name: state()[0] for name, state in self._checks.items()}


class HealthMetrics:
    """Shows the checks, and the causes for which writes fail, at each scrape."""

    def __init__(self, prefix: str, health: Health, failing: Callable[[], Iterable[WriteCause]]) -> None:
        """Prepare.

        Args:
            prefix: first word of the metrics' names.
            health: the checks.
            failing: returns the causes for which writes fail now.
        """
        self._prefix = prefix
        self._health = health
        self._failing = failing

    def collect(self) -> Iterator[Metric]:
        """Report the state of each check, and the number of causes by what fails."""
        checks = HEALTH_CHECK.with_prefix(self._prefix).gauge_family()
        for name, well in self._health.states().items():
            checks.add_metric([name], float(well))
        writes = FAILING_WRITES.with_prefix(self._prefix).gauge_family()
        counts = Counter((cause.kind, cause.verb, cause.resource) for cause in self._failing())
        for labels, count in sorted(counts.items()):
            writes.add_metric(labels, count)
        yield checks
        yield writes

    def describe(self) -> Iterator[Metric]:
        """Report nothing: names are fixed, and a description must not run the checks."""
        return iter(())
