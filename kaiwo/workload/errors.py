"""What deciding code raises when a workload's own fields make it impossible."""

from __future__ import annotations


class SpecError(ValueError):
    """A field of the workload cannot be used; the plan becomes ``InvalidSpec`` with this text.

    Attributes:
        path: the field, as users write it (``spec.job.spec.template``).
        problem: what is wrong, why, and what to do, without the path.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class PluginError(Exception):
    """A plugin's callable raised or answered nonsense; only the workload at hand is harmed.

    Attributes:
        plugin: name of the declaration (``batch_job``).
        step: what it was asked for (``render``).
    """

    def __init__(self, plugin: str, step: str, cause: object) -> None:
        text = f"{type(cause).__name__}: {cause}" if isinstance(cause, Exception) else str(cause)
        super().__init__(f"plugin {plugin} failed to {step} this workload: {text}")
        self.plugin = plugin
        self.step = step
