"""The networks of the real node, and the link between the machine and the node's network namespace.

The machine is `HOST`, the node is `NODE`. The machine reaches pods and Services through routes to the node.
The pods reach servers of the machine that listen on `HOST`, and no other network.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import time

from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.real_node.requirements import path_of

HOST = "10.255.255.1"
NODE = "10.255.255.2"
LINK = "kaiwo-node"
LINK_NETWORK = "10.255.255.0/30"
POD_NETWORK = "10.245.0.0/24"
"""Not 10.244.0.0/16, from which kwok takes the addresses of simulated pods."""
SERVICE_NETWORK = "10.96.0.0/16"
DNS = "10.96.0.10"

_PREFIX = "/30"
_GONE_SECONDS = 20.0


def check() -> None:
    """Check that no link of a real node exists and that the networks are not in use.

    Raises:
        SandboxError: another sandbox has a real node, or a route of the machine overlaps a network.
    """
    if link_exists():
        raise SandboxError(
            f"link {LINK} exists: another sandbox on this machine has a real node",
            hint="find it with kaiwo sandbox status and stop it; one real node can run at a time",
        )
    routes = json.loads(_ip("-json", "-4", "route", "show", "table", "all"))
    used = conflict([str(route.get("dst", "")) for route in routes])
    if used is not None:
        raise SandboxError(
            f"network {used[0]} of the real node overlaps the route to {used[1]} of this machine",
            hint="remove the route, or start the sandbox on another machine",
        )


def conflict(routes: list[str]) -> tuple[str, str] | None:
    """The first network of the real node that a route overlaps, and the destination of that route."""
    for route in routes:
        if route == "default":
            continue
        try:
            destination = ipaddress.ip_network(route)
        except ValueError:
            continue
        for network in (LINK_NETWORK, POD_NETWORK, SERVICE_NETWORK):
            if destination.prefixlen > 0 and destination.overlaps(ipaddress.ip_network(network)):
                return network, route
    return None


def link_exists() -> bool:
    """Whether the machine has the link to a real node."""
    return any(link["ifname"] == LINK for link in json.loads(_ip("-json", "link", "show")))


def wait_until_link_is_gone() -> None:
    """Wait for the kernel, which removes the link a moment after the node's last process.

    Raises:
        SandboxError: the link remains.
    """
    deadline = time.monotonic() + _GONE_SECONDS
    while link_exists():
        if time.monotonic() > deadline:
            raise SandboxError(
                f"link {LINK} still exists {_GONE_SECONDS:.0f} s after the end of the real node",
                hint=f"delete it with ip link delete {LINK}",
            )
        time.sleep(0.05)


def connect(pid: int) -> None:
    """Create the link from the machine to the network namespace of `pid`, and the routes over it.

    Raises:
        SandboxError: the kernel rejected a command.
    """
    _ip("link", "add", LINK, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _ip("address", "add", f"{HOST}{_PREFIX}", "dev", LINK)
    _ip("link", "set", LINK, "up")


def add_routes() -> None:
    """Route pods and Services to the node; both ends of the link must be up.

    Raises:
        SandboxError: the kernel rejected a command.
    """
    for network in (POD_NETWORK, SERVICE_NETWORK):
        _ip("route", "add", network, "via", NODE, "dev", LINK)


def commands_inside() -> list[list[str]]:
    """The commands that set up the node's own network namespace."""
    return [
        ["ip", "link", "set", "lo", "up"],
        ["ip", "address", "add", f"{NODE}{_PREFIX}", "dev", "eth0"],
        ["ip", "link", "set", "eth0", "up"],
        ["ip", "route", "add", "default", "via", HOST],
        ["sysctl", "-qw", "net.ipv4.ip_forward=1"],
    ]


def _ip(*arguments: str) -> str:
    completed = subprocess.run([path_of("ip"), *arguments], capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise SandboxError(
            f"ip {' '.join(arguments)} failed",
            detail=completed.stderr.strip(),
            hint="the real node needs CAP_NET_ADMIN and the kernel's veth driver",
        )
    return completed.stdout
