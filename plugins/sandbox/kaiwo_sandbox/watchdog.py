"""Takes a sandbox down when the process that owns it is gone, however that ended.

Run as ``python -m kaiwo_sandbox.watchdog NAME`` with standard input on a pipe that the owner holds open: the
kernel closes it even after SIGKILL.
"""

from __future__ import annotations

import sys

from kaiwo_sandbox.sandbox import Sandbox


def main(name: str) -> None:
    """Wait for the end of standard input, then take the sandbox down if it is still there."""
    sys.stdin.buffer.read()
    sandbox = Sandbox.find(name)
    if sandbox is not None:
        sandbox.down()


if __name__ == "__main__":
    main(sys.argv[1])
