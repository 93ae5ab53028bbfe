"""The watchdog deletes a sandbox when the process that owns it ends, even by SIGKILL.

It runs as ``python -m kaiwo_sandbox.watchdog NAME``. Its standard input is a pipe that the owner holds open,
and the kernel closes the pipe when the owner ends.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kaiwo_sandbox import lifecycle, process
from kaiwo_sandbox.paths import state_dir
from kaiwo_sandbox.teardown import down

if TYPE_CHECKING:
    from pathlib import Path


def start(name: str, directory: Path) -> int:
    """Start the watchdog and return the descriptor that the owner holds open.

    Raises:
        SandboxError: the process cannot be started.
    """
    read_end, write_end = os.pipe()
    try:
        process.start(
            lifecycle.WATCHDOG,
            [sys.executable, "-m", "kaiwo_sandbox.watchdog", name],
            directory=directory,
            environment={key: value for key, value in os.environ.items() if key.startswith("XDG_")},
            stdin=read_end,
        )
    finally:
        os.close(read_end)
    return write_end


def main(name: str) -> None:
    """Wait for the end of standard input, then delete the sandbox if it still runs."""
    sys.stdin.buffer.read()
    if lifecycle.is_running(state_dir(name)):
        down(name)


if __name__ == "__main__":
    main(sys.argv[1])
