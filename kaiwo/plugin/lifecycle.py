"""Code of a plugin that runs when the operator starts or stops, and after a status changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.declaration import Declaration

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.api.plugin_fields import WorkloadKind


@dataclass(frozen=True, slots=True)
class Lifecycle(Declaration):
    """Start and stop of the operator.

    A function that takes more than thirty seconds is cancelled, and one that keeps the event loop for longer
    than the setting ``pluginTimeLimit`` is interrupted. Work that blocks belongs into ``asyncio.to_thread``.

    Attributes:
        name: short name for logs.
        start: ``module:async_function`` called once KaiwoConfig was read, before controllers start, with the
            plugin's settings; None for none.
        stop: ``module:async_function`` called after they ended, with the settings of that moment; None for
            none. It is not called where ``start`` was not.
        settings_changed: ``module:async_function`` called after ``start`` with each new value of the settings
            in KaiwoConfig; None for none. Calls never overlap, and values in between may be left out.
    """

    name: str
    start: str | None = None
    stop: str | None = None
    settings_changed: str | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """A status change that was written to the API server.

    Attributes:
        kind: its kind.
        namespace: the workload's namespace.
        name: the workload's name.
        uid: the workload's uid.
        before: status before, empty for a new workload.
        after: status now.
        reason: one CamelCase word.
        message: one sentence.
        at: when it was decided, UTC.
        user: ``spec.user`` of the workload, empty for none.
    """

    kind: WorkloadKind
    namespace: str
    name: str
    uid: str
    before: str
    after: str
    reason: str
    message: str
    at: datetime
    user: str = ""


@dataclass(frozen=True, slots=True)
class TransitionListener(Declaration):
    """A function that is called after each transition, beside reconciliation.

    It has the same time limits as the functions of a :class:`Lifecycle`.

    Attributes:
        name: short name for logs.
        notify: ``module:async_function`` that takes one :class:`Transition` and, if ``settings`` is given,
            the plugin's settings at that moment.
    """

    name: str
    notify: str
