"""The address policy: which addresses the program may connect to.

Link-local addresses (the metadata servers of clouds among them) are always blocked. Loopback is allowed only
where the user wrote it as such: a name that resolves to it, or a redirect to it, is an attempt to reach
something that was not meant. Private addresses depend on the policy.
"""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

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


def parse_address(host: str) -> IpAddress | None:
    """The address that a host is written as; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _embedded_ipv4(address: IpAddress) -> IpAddress:
    """The IPv4 address that an IPv6 address embeds; the address itself when it embeds none."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def is_loopback_host(host: str) -> bool:
    """Whether a host is written as loopback."""
    address = parse_address(host)
    return host.lower() == "localhost" if address is None else _embedded_ipv4(address).is_loopback


def blocked_reason(address: IpAddress, *, private: bool, loopback: bool) -> str | None:
    """Why an address is blocked; None when it is allowed.

    Args:
        address: where the connection would go.
        private: whether private addresses are allowed.
        loopback: whether the user wrote a loopback address.
    """
    address = _embedded_ipv4(address)
    if address in METADATA or address.is_link_local:
        return "is a link-local or metadata address; these are always blocked"
    if address.is_unspecified or address.is_multicast:
        return "is not a unicast address"
    if address.is_loopback:
        return None if private and loopback else "is a loopback address"
    if not address.is_global and not private:
        return "is a private address; KaiwoConfig storage.allowPrivateEndpoints is false"
    return None
