"""Errors of the sandbox as failures of a command."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kaiwo.cli import kit
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def errors_as_failures() -> Iterator[None]:
    """Turn errors of the sandbox and of the operating system into `kit.Failure`.

    Raises:
        Failure: instead of SandboxError and OSError.
    """
    try:
        yield
    except SandboxError as error:
        raise kit.Failure(error.text, error.hint) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        resource = error.filename or "a file or connection"
        raise kit.Failure(
            f"cannot use {resource}: {error.strerror or error}",
            "check the disk and the permissions of ~/.cache/kaiwo and ~/.local/state/kaiwo",
        ) from error
