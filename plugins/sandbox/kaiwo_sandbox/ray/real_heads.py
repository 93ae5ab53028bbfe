"""Forwards requests to the Ray heads that really run, on the real node of the sandbox."""

from __future__ import annotations

import http.client
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kaiwo_sandbox.real_node.network import POD_NETWORK

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message

_HOST_PARTS = 3
_TIMEOUT_SECONDS = 10.0
_FORWARDED = ("Accept", "Authorization", "Content-Type")
_PODS = ipaddress.ip_network(POD_NETWORK)


@dataclass(frozen=True, slots=True)
class HeadResponse:
    """The response of a Ray head."""

    status: int
    content_type: str
    body: bytes


def address_of(url: str, head_address: Callable[[str, str], str]) -> str:
    """The address of the real head that the URL is for; empty if a simulated one answers.

    Args:
        url: an absolute URL. Its host is the Service of a head, or the address of a pod.
        head_address: returns the address of the real head behind a Service, or an empty text; its arguments
            are namespace and name.
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    try:
        return host if ipaddress.ip_address(host) in _PODS else ""
    except ValueError:
        parts = host.split(".")
    if len(parts) < _HOST_PARTS or parts[2] != "svc":
        return ""
    return head_address(parts[1], parts[0])


def forward(address: str, method: str, url: str, headers: Message, body: bytes) -> HeadResponse:
    """Send the request to the port of the URL at this address.

    Raises:
        OSError: the head does not answer.
        http.client.HTTPException: the answer is not HTTP.
    """
    parts = urlsplit(url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    kept = {name: value for name in _FORWARDED if (value := headers.get(name))}
    connection = http.client.HTTPConnection(address, parts.port or 80, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body or None, kept)
        response = connection.getresponse()
        return HeadResponse(response.status, response.getheader("Content-Type", ""), response.read())
    finally:
        connection.close()
