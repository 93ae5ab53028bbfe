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
