"""A network of its own for one process, whose packets can be dropped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from campaign.violation import NotRunError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_TOOLS: Final = ("ip", "iptables")
_BENCHMARKS: Final = "198.18"
"""Beginning of addresses that no network routes (RFC 2544)."""


class OwnNetwork:
    """A network namespace of the machine that one link joins with it.

    Attributes:
        host: the machine's address on the link.
    """

    def __init__(self, name: str, subnet: int) -> None:
        """Name it; `own_network` makes it.

        Args:
            name: of namespace and link.
            subnet: number of its subnet of four addresses, below 16384.
        """
        self._name = name
        third, fourth = divmod(4 * subnet, 256)
        self.host = f"{_BENCHMARKS}.{third}.{fourth + 1}"
        self._inside = f"{_BENCHMARKS}.{third}.{fourth + 2}"

    def command(self, *command: str) -> tuple[str, ...]:
        """A command that runs in the namespace."""
        return ("ip", "netns", "exec", self._name, *command)

    def add(self) -> None:
        """Make namespace and link.

        Raises:
            NotRunError: the machine does not allow it.
        """
        try:
            _run("ip", "netns", "add", self._name)
            _run("ip", "link", "add", self._name, "type", "veth", "peer", "name", "eth0", "netns", self._name)
            _run("ip", "address", "add", f"{self.host}/30", "dev", self._name)
            _run("ip", "link", "set", self._name, "up")
            _run("ip", "-n", self._name, "address", "add", f"{self._inside}/30", "dev", "eth0")
            _run("ip", "-n", self._name, "link", "set", "eth0", "up")
            _run("ip", "-n", self._name, "link", "set", "lo", "up")
            self.heal()
        except subprocess.CalledProcessError as error:
            said = error.stderr.strip()
            raise NotRunError(f"no network namespace: {' '.join(error.cmd)}: {said}") from None

    def remove(self) -> None:
        """Remove what there is of it."""
        for command in (("ip", "link", "delete", self._name), ("ip", "netns", "delete", self._name)):
            with contextlib.suppress(subprocess.CalledProcessError):
                _run(*command)

    def drop(self, chains: Sequence[str] = ("INPUT", "OUTPUT")) -> None:
        """Drop all packets to the namespace, from it, or both."""
        for chain in chains:
            _run(
                *self.command(
                    "iptables", "-A", chain, "-i" if chain == "INPUT" else "-o", "eth0", "-j", "DROP"
                )
            )

    def heal(self) -> None:
        """Drop nothing any more."""
        _run(*self.command("iptables", "-F"))


@contextlib.asynccontextmanager
async def own_network() -> AsyncIterator[OwnNetwork]:
    """Make a network, and remove it at the end.

    Raises:
        NotRunError: the machine does not allow it.
    """
    if os.geteuid() != 0:
        raise NotRunError("a network namespace needs root")
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise NotRunError(f"{missing[0]} is not installed (Debian: iproute2, iptables)")
    network = OwnNetwork(f"kaiwo-{secrets.token_hex(4)}", secrets.randbelow(1 << 14))
    try:
        await asyncio.to_thread(network.add)
        yield network
    finally:
        await asyncio.to_thread(network.remove)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
