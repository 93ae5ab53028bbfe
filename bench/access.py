"""How every program of the benchmark reaches the API server: one small file per user, one HTTP session.

Each program has a user of its own, so that the audit log shows who sent each request.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import aiohttp
import msgspec

if TYPE_CHECKING:
    from pathlib import Path

LOAD, FLOOR, OPERATOR, OBSERVER = "bench-load", "bench-floor", "bench-operator", "bench-observer"
USERS = (LOAD, FLOOR, OPERATOR, OBSERVER)

KAIWO_JOBS = "/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{namespace}/kaiwojobs"
ALL_KAIWO_JOBS = "/apis/kaiwo.silogen.ai/v1alpha1/kaiwojobs"
JOBS = "/apis/batch/v1/namespaces/{namespace}/jobs"

encode = msgspec.json.encode


class Access(msgspec.Struct, frozen=True):
    """An address and a user.

    Attributes:
        url: the API server, for example ``https://127.0.0.1:20443``.
        ca_file: path of the certificate authority.
        user: name of the user in the audit log.
        token: the user's bearer token.
    """

    url: str
    ca_file: str
    user: str
    token: str

    @classmethod
    def read(cls, path: Path) -> Access:
        """The access that :meth:`write` wrote."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        """Write it, readable by the owner alone."""
        path.touch(mode=0o600)
        path.write_bytes(encode(self))

    def session(self, connections: int) -> aiohttp.ClientSession:
        """A session of at most `connections` kept-alive connections. JSON both ways, no compression."""
        context = ssl.create_default_context(cafile=self.ca_file)
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": self.user,
        }
        return aiohttp.ClientSession(
            base_url=self.url,
            connector=aiohttp.TCPConnector(limit=connections, ssl=context),
            headers=headers,
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
        )


async def check(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer that must be a success.

    Raises:
        RuntimeError: it is not; the API server's message is in the text.
    """
    body = await response.read()
    if response.status >= 300:
        text = body[:400].decode(errors="replace")
        raise RuntimeError(f"{response.method} {response.url.path}: {response.status} {text}")
    return body
