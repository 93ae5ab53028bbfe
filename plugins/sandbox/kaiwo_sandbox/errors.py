"""The one error that the sandbox raises for things a user can act on."""

from __future__ import annotations


class SandboxError(Exception):
    """Something about the sandbox failed; the message says what, why and what to do next."""

    def __init__(self, what: str, *, why: str = "", next_step: str = "") -> None:
        parts = [what]
        if why:
            parts.append(f"Why: {why}")
        if next_step:
            parts.append(f"Next: {next_step}")
        super().__init__("\n".join(parts))
        self.what = what
        self.why = why
        self.next_step = next_step
