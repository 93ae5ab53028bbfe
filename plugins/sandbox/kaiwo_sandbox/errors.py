"""The error that the sandbox raises for problems that a user can fix."""

from __future__ import annotations


class SandboxError(Exception):
    """A sandbox command failed.

    Attributes:
        message: what is wrong, with the object first.
        detail: evidence, such as an operating system error or the last lines of a log.
        hint: what to do next.
    """

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        self.message = message
        self.detail = detail
        self.hint = hint
        super().__init__(f"{self.text}\nhint: {hint}" if hint else self.text)

    @property
    def text(self) -> str:
        """The message and the detail, without the hint."""
        if not self.detail:
            return self.message
        separator = ":\n" if "\n" in self.detail else ": "
        return f"{self.message}{separator}{self.detail}"
