"""Which addresses may be reached.

Link-local addresses (the metadata servers of clouds among them) never are. Loopback is reached only where the
user wrote it as such: a name that resolves to it, or a redirect of a server elsewhere, is an attempt to reach
something that was not meant. Private addresses depend on the policy.
"""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Google Cloud, Azure, OpenStack
        "fd00:ec2::254",  # AWS over IPv6
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure's wire server
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def literal(host: str) -> Address | None:
    """The address that a host is written as, None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def written_loopback(host: str) -> bool:
    """Whether a host is loopback by how it is written."""
    address = literal(host)
    return host.lower() == "localhost" if address is None else _plain(address).is_loopback


def refusal(address: Address, *, private: bool, loopback: bool) -> str | None:
    """Why an address may not be reached; None when it may.

    Args:
        address: where the connection would go.
        private: whether private addresses are allowed.
        loopback: whether the user wrote a loopback address.
    """
    address = _plain(address)
    if address in METADATA or address.is_link_local:
        return "is a link-local or metadata address, which is never reached"
    if address.is_unspecified or address.is_multicast:
        return "is no address of a server"
    if address.is_loopback:
        return None if private and loopback else "is a loopback address"
    if not address.is_global and not private:
        return "is a private address, and KaiwoConfig storage.allowPrivateEndpoints is false"
    return None
