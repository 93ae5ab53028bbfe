"""The address policy: which addresses messages may go to. It is that of downloads.

Every address that a name resolves to is checked, and the connection goes to the address that was checked.
"""

from __future__ import annotations

import ipaddress
from typing import Final, TypeAlias

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Google Cloud, Azure, OpenStack
        "fd00:ec2::254",  # AWS over IPv6
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure's wire server
    )
)

_IPV4_SUFFIXED: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "64:ff9b::/96",  # NAT64, well-known prefix (RFC 6052)
        "::ffff:0:0:0/96",  # IPv4-translated (RFC 2765)
        "::/96",  # IPv4-compatible (RFC 4291, deprecated)
    )
)

_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
"""Local-use NAT64 (RFC 8215); where the IPv4 address is in it depends on the translator."""


class BlockedAddress(Exception):
    """A message must not go to an address."""


def check_address(text: str, *, private: bool, loopback: bool = False) -> None:
    """Check an address before something is connected to it.

    Args:
        text: the address.
        private: whether private addresses are allowed.
        loopback: whether the administrator wrote a loopback address.

    Raises:
        BlockedAddress: messages must not go there.
    """
    reason = blocked_reason(ipaddress.ip_address(text.partition("%")[0]), private=private, loopback=loopback)
    if reason is not None:
        raise BlockedAddress(f"{text} {reason}")


def blocked_reason(address: IpAddress, *, private: bool, loopback: bool) -> str | None:
    """Why an address is blocked; None when it is allowed.

    Args:
        address: where the connection would go.
        private: whether private addresses are allowed.
        loopback: whether the administrator wrote a loopback address.
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
        return "is a private address; spec.plugins.notify.allowPrivateEndpoints is false"
    return None


def is_loopback_host(host: str) -> bool:
    """Whether a host is written as loopback."""
    try:
        return _embedded_ipv4(ipaddress.ip_address(host.strip("[]").partition("%")[0])).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _embedded_ipv4(address: IpAddress) -> IpAddress:
    """The IPv4 address that an IPv6 address embeds; the address itself when it embeds none."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if int(address) > 1 and any(address in network for network in _IPV4_SUFFIXED):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)
