"""Which HTTP proxy the environment names for a URL, by the rules of programs written in Go, as kubectl is.

``urllib`` knows no ranges of addresses in ``NO_PROXY``, where most clusters have theirs.
"""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TypeAlias
from urllib.parse import urlsplit

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS = {"http": 80, "https": 443}
_USER = re.compile(r"(?<=://)[^/\s'\"]*@")


def environment_proxy(url: str) -> str | None:
    """The URL of the proxy for a URL; None without one, and for a host that ``NO_PROXY`` excepts.

    ``HTTPS_PROXY`` and ``HTTP_PROXY`` name it, in upper or lower case; without a scheme it is an http one.
    ``NO_PROXY`` lists names, which stand for all below them as well, addresses, and ranges of addresses
    (``10.0.0.0/8``); names and addresses may have a port, and ``*`` excepts everything. This machine itself
    is never reached through a proxy.
    """
    parts = urlsplit(url)
    found = _variable(f"{parts.scheme}_proxy")
    try:
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        port = 0  # no port at all, which is refused by whoever connects
    if not found or _is_excepted(parts.hostname or "", port):
        return None
    return found if "://" in found else f"http://{found}"


def without_user(text: str) -> str:
    """A text without user and password of the URLs in it, for messages."""
    return _USER.sub("", text)


def _variable(name: str) -> str:
    return (os.environ.get(name.upper()) or os.environ.get(name) or "").strip()


def _is_excepted(host: str, port: int) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (entry.strip() for entry in _variable("no_proxy").lower().split(","))
    return any(entry == "*" or _excepts(entry, host, port, address) for entry in entries if entry)


def _excepts(entry: str, host: str, port: int, address: _Address | None) -> bool:
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, only_port = _split(entry)
    if only_port and only_port != str(port):
        return False
    excepted = _address(name)
    if excepted is not None:
        return excepted == address
    name = name.removeprefix("*.").removeprefix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _split(entry: str) -> tuple[str, str]:
    """Name or address of an entry, and its port; an IPv6 address with a port is in brackets."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    name, colon, port = entry.rpartition(":")
    return (name, port) if colon and ":" not in name else (entry, "")


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
