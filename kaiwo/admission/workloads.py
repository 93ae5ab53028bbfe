"""Validation of KaiwoJobs and KaiwoServices: what the operator would report in their status, said at once.

Refused is what only another spec can mend. What can heal, such as a plugin that is not loaded, is a warning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kaiwo.admission.answer import Answer
from kaiwo.admission.immutable_fields import immutable_change
from kaiwo.api.errors import UNKNOWN_FIELD, InvalidWorkload, render
from kaiwo.api.metadata_checks import generated
from kaiwo.api.validate import Validation
from kaiwo.api.workload import GROUP, SPECS, Workload
from kaiwo.plugin.facts import Blocked
from kaiwo.workload.backend_selection import select_backend
from kaiwo.workload.defaults import queue_manages, resolve, with_settings
from kaiwo.workload.download import requested
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.labels import ADOPTED
from kaiwo.workload.model import PlanContext
from kaiwo.workload.plans import create

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.admission.request import Request
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Facts, Registry

_FOR_GOOD: Final = frozenset({"InvalidName", "InvalidSpec", "SpecTooLarge", "IndivisibleGPUs"})
"""Reasons of a status that only another spec changes."""


class _Refused(Exception):
    """The workload cannot be used."""


class WorkloadReviewer:
    """Validates KaiwoJobs and KaiwoServices by the functions of the command line and of the operator."""

    def __init__(self, plugins: Plugins, registry: Registry, facts: Callable[[], Facts]) -> None:
        """Prepare the models.

        Args:
            plugins: loaded plugins.
            registry: their declarations.
            facts: what is known of the cluster; nothing of single workloads is read.
        """
        self._registry = registry
        self._facts = facts
        self._validator = plugins.validator()

    def __call__(self, request: Request) -> Answer:
        """Whether the operator could use what is written."""
        if request.object is None or not request.changes_spec:
            return Answer(allowed=True)
        if request.group != GROUP or request.kind not in SPECS:
            return Answer(allowed=True)
        if request.unreadable:
            return Answer(allowed=False, message=f"{request.unreadable}; make it smaller")
        found = self._validated(request.object, request.old_object)
        said = [str(warning) for warning in found.warnings]
        if found.problems:
            return Answer(allowed=False, message=render(found.problems), warnings=tuple(said))
        known = tuple(f"{warning.path}: {warning.message}" for warning in found.warnings)

        def warn(text: str) -> None:
            if not text.startswith(known):
                said.append(text)

        try:
            self._plan(request.object, request.old_object, warn)
        except (_Refused, SpecError) as error:
            return Answer(allowed=False, message=str(error), warnings=tuple(said))
        except PluginError as error:
            said.append(f"{error}; the operator tries it again")
        except InvalidWorkload:
            pass  # as it was before; what is wrong is among the warnings
        return Answer(allowed=True, warnings=tuple(dict.fromkeys(said)))

    def _validated(self, obj: Object, old: Object | None) -> Validation:
        """What validation finds; what was wrong before an update is a warning."""
        found = self._validator.validate(obj, defaulted=True)
        # The API server drops unknown fields, so these are of plugins that are not loaded: that can heal.
        unknown = [item for item in found.problems if item.message == UNKNOWN_FIELD]
        problems = [item for item in found.problems if item.message != UNKNOWN_FIELD]
        if not problems or old is None:
            return Validation(tuple(problems), (*unknown, *found.warnings))
        before = {
            (item.path, item.message) for item in self._validator.validate(old, defaulted=True).problems
        }
        new = tuple(item for item in problems if (item.path, item.message) not in before)
        left = [item for item in problems if (item.path, item.message) in before]
        return Validation(new, (*left, *unknown, *found.warnings))

    def _plan(self, obj: Object, old: Object | None, warn: Callable[[str], None]) -> None:
        """Render it as the operator would, and report what `kaiwo plan` warns about.

        Raises:
            _Refused: the operator could not use it, or would not apply the change.
            SpecError: likewise.
            PluginError: a plugin failed to say.
            InvalidWorkload: its spec cannot be read.
        """
        registry, facts = self._registry, self._facts()
        status = old.get("status") if old is not None else None
        workload = Workload.from_object({**obj, "status": status})
        if not workload.name:
            workload = replace(workload, name=generated(str(obj["metadata"].get("generateName"))))
        if ADOPTED in workload.labels:
            return  # it is only observed
        if workload.status.terminal:
            warn(f"status is {workload.status.status}; it does not run again, submit it under another name")
            return
        choice = select_backend(workload, registry, facts.settings, queue_manages(registry, facts))
        backend = choice.backend
        if backend is None:
            if choice.blocked is not None:
                warn(_would_not_run(choice.blocked))
            return
        case = PlanContext(workload, registry, facts, backend, choice.switched)
        if blocked := create.check(workload, backend):
            raise _Refused(blocked.message)
        if old is not None and (text := immutable_change(case, obj, old)):
            raise _Refused(text)
        _render(case, warn)


def _render(case: PlanContext, warn: Callable[[str], None]) -> None:
    """Render a workload that has passed all checks; see :meth:`WorkloadReviewer._plan`."""
    workload, registry = case.workload, case.registry
    for text in create.spec_warnings(workload, registry, case.backend, case.facts):
        warn(text)
    if blocked := requested.unserved(workload, registry):
        warn(_would_not_run(blocked))
    answer = resolve(case, check_capacity=False)
    if not isinstance(answer, Blocked):
        resolved, queue = answer
        for text in create.render(case, with_settings(case, resolved), queue).warnings:
            warn(text)
    elif answer.reason in _FOR_GOOD:
        raise _Refused(answer.message)
    else:
        warn(_would_not_run(answer))


def _would_not_run(blocked: Blocked) -> str:
    return f"would not run: {blocked.reason}: {blocked.message}"
