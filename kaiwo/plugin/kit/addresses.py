"""The address policy: which addresses code may connect to on behalf of users.

Link-local addresses (the metadata servers of clouds among them) are always blocked. Loopback is allowed only
where it was written as such: a name that resolves to it, or a redirect to it, is an attempt to reach
something that was not meant. Private addresses depend on a setting. Check every address that a name resolves
to, and connect to the address that was checked.
"""

from __future__ import annotations

import ipaddress
from typing import Final, TypeAlias

__all__ = ["METADATA", "IpAddress", "blocked_reason", "is_loopback_host", "parse_address"]

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
"""An address of either version."""

METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Google Cloud, Azure, OpenStack
        "fd00:ec2::254",  # AWS over IPv6
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure's wire server
    )
)
"""The servers from which a machine of a cloud reads its own credentials."""

_IPV4_SUFFIXED: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "64:ff9b::/96",  # NAT64, well-known prefix (RFC 6052)
        "::ffff:0:0:0/96",  # IPv4-translated (RFC 2765)
        "::/96",  # IPv4-compatible (RFC 4291, deprecated)
    )
)
"""Networks whose addresses end with the IPv4 address that a translator or the kernel connects to."""

_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
"""Local-use NAT64 (RFC 8215); where the IPv4 address is in it depends on the translator."""


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
    if int(address) > 1 and any(address in network for network in _IPV4_SUFFIXED):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


def is_loopback_host(host: str) -> bool:
    """Whether a host is written as loopback."""
    address = parse_address(host)
    return host.lower() == "localhost" if address is None else _embedded_ipv4(address).is_loopback


def blocked_reason(address: IpAddress, *, private: bool, loopback: bool, setting: str) -> str | None:
    """Why an address is blocked; None when it is allowed.

    Args:
        address: where the connection would go.
        private: whether private addresses are allowed.
        loopback: whether a loopback address was written as such.
        setting: field that allows private addresses, named in the reason.
    """
    if address in _LOCAL_NAT64:
        return "is a local NAT64 address; the address behind it cannot be checked"
    address = _embedded_ipv4(address)
    if address in METADATA or address.is_link_local:
        return "is a link-local or metadata address; these are always blocked"
    if address.is_unspecified or address.is_multicast:
        return "is not a unicast address"
    if address.is_loopback:
        return None if private and loopback else "is a loopback address"
    if not address.is_global and not private:
        return f"is a private address; {setting} is false"
    return None
