"""What is raised when a statement does not hold after a case, and when a case cannot be run."""

from __future__ import annotations


class ViolationError(Exception):
    """An oracle does not hold after a case.

    Attributes:
        oracle: its short name, for example ``O3``; ``fault`` for a fault that did not take place.
    """

    def __init__(self, oracle: str, message: str) -> None:
        """Describe it.

        Args:
            oracle: the short name of `oracle`.
            message: what was found, and what was expected.
        """
        super().__init__(message)
        self.oracle = oracle


class NotRunError(Exception):
    """The machine does not allow what a case needs; the message says what."""
