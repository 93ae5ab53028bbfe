"""Errors of the client: what is wrong, and what to do about it.

The engine's errors (`kaiwo.engine.errors`) pass through unchanged: `ApiError` and its kinds for what the API
server rejects, `ConnectionBroken` when no answer came, `CredentialsError` without a usable kubeconfig.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class ClientError(Exception):
    """The base class of the client's own errors; ``str(error)`` is the whole message.

    Attributes:
        exit_code: with which the command line ends.
        message: what is wrong, where, and why.
        next_step: what to do about it, preferably a command; may be empty.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


class InvalidArgument(ClientError):
    """An argument, a file or a setting cannot be used; nothing was sent."""

    exit_code = 2


class InvalidManifest(InvalidArgument):
    """A workload that the cluster would reject; nothing was sent.

    Attributes:
        problems: one text for each problem, with the field's path.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems), "kaiwo submit -f FILE --dry-run shows the lines")
        self.problems = tuple(problems)


class WorkloadNotFound(ClientError):
    """There is no workload of that name."""

    exit_code = 3


class WorkloadExists(ClientError):
    """The name is taken: by another user's workload, one that is being deleted, or one that has ended."""


class PluginFailed(ClientError):
    """Code of a plugin raised what it must not."""

    def __init__(self, plugin: str, step: str, error: Exception) -> None:
        """Name who has to mend it.

        Args:
            plugin: name of the plugin.
            step: what its code was asked to do.
            error: what it raised.
        """
        what = f"plugin {plugin} failed to {step}: {type(error).__name__}: {error}"
        super().__init__(what, "report it to the authors of the plugin")


class NotInstalled(ClientError):
    """The cluster does not serve Kaiwo's kinds."""


class WaitTimeout(ClientError, TimeoutError):
    """The time is over, and a workload has not reached the state that was waited for."""

    exit_code = 4


class WorkloadFailed(ClientError):
    """A workload that was waited for ended otherwise, stayed in ERROR, or was deleted."""
