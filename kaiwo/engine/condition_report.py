"""Reports conditions of configuration objects: once per change as Events and log lines, and as metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kaiwo.engine.metric_definitions import CONFIG_CONDITION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from prometheus_client import Metric

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.event_recorder import EventRecorder
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import Cache

_log = logging.getLogger(__name__)

_STATUSES = ("True", "False", "Unknown")


class ConditionReporter:
    """Reports what changed between two statuses of an object.

    A condition that turns bad is a Warning event, one that recovers a Normal one. The log has each cause once
    per process: also the one that was there when the process started, for which there is no new event.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        *,
        errors: Collection[str] = ("Ready",),
        bad_when_true: Collection[str] = (),
    ) -> None:
        """Prepare.

        Args:
            recorder: takes the events.
            errors: types of conditions that are logged as errors while they are bad; others as warnings.
            bad_when_true: types of conditions that name a problem; others are bad when they are False.
        """
        self._recorder = recorder
        self._errors = frozenset(errors)
        self._bad_when_true = frozenset(bad_when_true)
        self._logged: dict[tuple[str, str], tuple[str, str]] = {}

    def report(
        self, entry: CachedObject, before: Sequence[Object], after: Sequence[Object], *, failed: bool = True
    ) -> None:
        """Report the conditions of an object.

        Args:
            entry: the object.
            before: its conditions as they were.
            after: its conditions as they are written.
            failed: whether a bad condition among the errors is one; False while the object only waits.
        """
        known = {str(item.get("type")): item for item in before}
        now = {str(item.get("type")): item for item in after}
        for name, item in now.items():
            self._log(entry, name, item, failed=failed)
            self._event(entry, name, known.get(name), item)
        for name, item in known.items():
            if name not in now and self._is_bad(name, item):
                self._log(entry, name, None, failed=False)
                self._recorder.event(entry, "Normal", name, f"{name}: {item.get('reason')} is over")

    def _event(self, entry: CachedObject, name: str, old: Object | None, new: Object) -> None:
        same = old is not None and (old.get("status"), old.get("reason")) == (
            new.get("status"),
            new.get("reason"),
        )
        if same:
            return
        reason, message = str(new.get("reason") or name), str(new.get("message") or "")
        if self._is_bad(name, new):
            self._recorder.event(entry, "Warning", reason, f"{name}: {message}")
        elif old is not None and self._is_bad(name, old):
            self._recorder.event(entry, "Normal", reason, f"{name}: {old.get('reason')} is over")

    def _log(self, entry: CachedObject, name: str, item: Object | None, *, failed: bool) -> None:
        key = (entry.uid, name)
        what = f"{entry.resource.kind} {entry.name}: {name}"
        if item is None or not self._is_bad(name, item):
            if self._logged.pop(key, None) is not None:
                _log.info("%s: the problem is over", what)
            return
        cause = (str(item.get("reason") or ""), str(item.get("message") or ""))
        if self._logged.get(key) != cause:
            self._logged[key] = cause
            level = logging.ERROR if failed and name in self._errors else logging.WARNING
            _log.log(level, "%s: %s: %s", what, *cause)

    def _is_bad(self, name: str, item: Object) -> bool:
        return item.get("status") == ("True" if name in self._bad_when_true else "False")


class ConditionMetrics:
    """Shows the conditions of single objects, read from the cache at each scrape."""

    def __init__(self, prefix: str, cache: Cache) -> None:
        """Start without objects.

        Args:
            prefix: first word of the metrics' names.
            cache: has the objects.
        """
        self._prefix = prefix
        self._cache = cache
        self._objects: dict[Resource, str] = {}

    def add(self, kind: Resource, name: str) -> None:
        """Show the conditions of one cluster-scoped object."""
        self._objects[kind] = name

    def collect(self) -> Iterator[Metric]:
        """Report each condition, in the form of kube-state-metrics."""
        family = CONFIG_CONDITION.with_prefix(self._prefix).gauge_family()
        for kind, name in self._objects.items():
            entry = self._cache.get(kind, None, name)
            conditions = entry.part("status", "conditions") if entry is not None else None
            for item in conditions if isinstance(conditions, list) else ():
                for status in _STATUSES:
                    labels = [kind.kind, str(item.get("type")), status]
                    family.add_metric(labels, float(item.get("status") == status))
        yield family

    def describe(self) -> Iterator[Metric]:
        """Report nothing: names are fixed, and a description must not read the cache."""
        return iter(())
