"""Reads samples from the metrics endpoint: Prometheus text, or a Prometheus server.

Bytes arrive on the event loop, which only hands them on; a thread of its own parses them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from kaiwo.engine.errors import CredentialsError
from kaiwo.engine.proxy import environment_proxy, without_user
from kaiwo.host.monitoring.access import EndpointAccess, EndpointFiles
from kaiwo.workload.monitoring import prometheus_query
from kaiwo.workload.monitoring.prometheus_query import QueryError
from kaiwo.workload.monitoring.prometheus_text import TextReader
from kaiwo.workload.monitoring.samples import Samples, TooManySamplesError, meanings

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from kaiwo.plugin.vendors import Utilization
    from kaiwo.workload.monitoring.samples import Meaning

MOST_BYTES: Final = 64 << 20
"""Bytes of one answer; 40,000 samples of an exporter are 15 MB."""

MOST_ANSWER: Final = 32 << 20
"""Bytes of an answer of a Prometheus server, which is parsed as a whole."""

MOST_ADDRESSES: Final = 2000
"""Exporters behind one name that are read."""

_AT_ONCE: Final = 8
_PIECE: Final = 1 << 18
_SHORTEST, _LONGEST = 5.0, 60.0  # seconds that one scrape may take
_FRESH = 3  # intervals; a sample that is older says nothing
_AHEAD = 5.0  # seconds by which the clocks of two machines may differ
_OK = 200
_NOT_AUTHORIZED = (401, 403)
_TLS_CONTEXT: Final = re.compile(r" ssl:(<[^>]*>|\w+)")
_T = TypeVar("_T")
_TEXT: Final = ("text/plain", "application/openmetrics-text")
_TEXT_PATHS: Final = ("metrics", "federate")


class EndpointError(Exception):
    """The endpoint does not answer, or its answer cannot be used; the message is one line."""


def is_text(url: str) -> bool:
    """Whether a URL is that of Prometheus text: a part of its path is ``metrics`` or ``federate``."""
    return any(part in _TEXT_PATHS for part in urlsplit(url).path.split("/"))


def shown(url: str) -> str:
    """A URL for messages, without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Endpoint:
    """The metrics endpoint.

    Attributes:
        metrics: names of the metrics that are read.
        timeout: seconds that one scrape may take.
    """

    def __init__(
        self,
        url: str,
        utilizations: Iterable[Utilization],
        interval: float,
        now: Callable[[], datetime],
        files: EndpointFiles = EndpointFiles(),  # noqa: B008  frozen
    ) -> None:
        """Nothing is read yet.

        Args:
            url: of Prometheus text or of a Prometheus server, with user and password where it needs them.
            utilizations: metrics of the loaded vendors.
            interval: seconds between two scrapes.
            now: the time.
            files: token and CA certificates for its server.
        """
        self.shown = shown(url)
        self._url = url
        self._meanings = meanings(utilizations)
        self.metrics = tuple(self._meanings)
        self.timeout = min(max(_SHORTEST, interval * 0.8), _LONGEST)
        self._fresh = max(_FRESH * interval, 2 * _LONGEST)
        self._now = now
        self._evaluated = 0.0
        self._access = EndpointAccess(files)
        self._headers: dict[str, str] = {}
        self._tls: ssl.SSLContext | bool = True
        self._session: aiohttp.ClientSession | None = None
        self._thread = ThreadPoolExecutor(1, "monitoring", _block_signals)

    async def close(self) -> None:
        """Close connections, and end the thread."""
        if self._session is not None:
            await self._session.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def read(self) -> Samples:
        """The samples of one scrape.

        Raises:
            EndpointError: there is no usable answer.
        """
        if self._session is None:
            # An answer is taken as it comes: what unpacks to gigabytes is not unpacked.
            self._session = aiohttp.ClientSession(
                auto_decompress=False, headers={"Accept-Encoding": "identity"}
            )
        samples = Samples()
        try:
            async with asyncio.timeout(self.timeout):
                self._headers, self._tls = await self._access.headers(), self._access.tls()
                if is_text(self._url):
                    await self._read_text(samples)
                else:
                    await self._read_server(samples)
        except TimeoutError:
            raise EndpointError(f"{self.shown} does not answer within {self.timeout:g} s") from None
        except TooManySamplesError:
            raise EndpointError(f"{self.shown} has more samples than any cluster has GPUs") from None
        except (QueryError, CredentialsError) as error:
            raise EndpointError(f"{self.shown}: {error}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EndpointError(f"{self.shown}: {self._words(error)}") from None
        return samples

    def _words(self, error: Exception) -> str:
        # The representation of a TLS context has an address in memory, which differs between processes.
        text = _TLS_CONTEXT.sub("", str(error)) or type(error).__name__
        return without_user(text).splitlines()[0][:200]

    # -- Prometheus text

    async def _read_text(self, samples: Samples) -> None:
        """Read every address of the host: a Service without a cluster IP names the exporters of all nodes."""
        parts = urlsplit(self._url)
        addresses = await self._addresses(parts.hostname or "", parts.port)
        if len(addresses) < 2 or parts.scheme != "http":  # noqa: PLR2004  one is no fan-out
            await self._read_one(self._url, "", samples)
            return
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(address: str) -> Exception | None:
            async with limit:
                literal = f"[{address}]" if ":" in address else address
                user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
                port = f":{parts.port}" if parts.port else ""
                url = urlunsplit((parts.scheme, f"{user}{literal}{port}", parts.path, parts.query, ""))
                try:
                    await self._read_one(url, parts.netloc.rpartition("@")[2], samples)
                except (EndpointError, aiohttp.ClientError, OSError) as error:
                    return error  # the GPUs of one node are not known then
            return None

        failed = [error for error in await asyncio.gather(*map(one, addresses)) if error is not None]
        if len(failed) == len(addresses):
            raise failed[0]

    async def _addresses(self, host: str, port: int | None) -> list[str]:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = sorted({str(item[4][0]) for item in found if not str(item[4][0]).startswith("::1")})
            return addresses[:MOST_ADDRESSES]
        return [host]

    async def _read_one(self, url: str, host: str, samples: Samples) -> None:
        headers = {"Accept": "text/plain;version=0.0.4"} | ({"Host": host} if host else {})
        async with self._get(url, headers) as response:
            kind = self._check(response)
            if kind not in _TEXT:
                raise EndpointError(
                    f"{self.shown} answers with {kind or 'no type'}, expected Prometheus text"
                )
            now = self._now().timestamp()
            reader = TextReader(
                self._meanings, samples, oldest=now - self._fresh, newest=now + _AHEAD,
                unit=1.0 if kind == _TEXT[1] else 0.001,
            )  # fmt: skip
            size = 0
            async for piece in response.content.iter_chunked(_PIECE):
                size += len(piece)
                if size > MOST_BYTES:
                    raise EndpointError(f"{self.shown} answers with more than {MOST_BYTES >> 20} MiB")
                await self._in_thread(partial(reader.feed, piece))
            await self._in_thread(reader.close)

    # -- a Prometheus server

    async def _read_server(self, samples: Samples) -> None:
        evaluated = 0.0
        for metric, meaning in self._meanings.items():
            body = await self._query(prometheus_query.query_of(metric, meaning, self._fresh))
            at = await self._in_thread(partial(self._take, body, meaning, samples))
            evaluated = max(evaluated, at or 0.0)
        if evaluated and evaluated == self._evaluated:
            raise EndpointError(
                f"{self.shown} answers with the result of an earlier query; is there a cache?"
            )
        self._evaluated = evaluated

    @staticmethod
    def _take(body: bytes, meaning: Meaning, samples: Samples) -> float | None:
        return prometheus_query.read_answer(body, meaning, samples)

    async def _query(self, query: str) -> bytes:
        parts = urlsplit(self._url)
        url = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + prometheus_query.PATH, "", ""))
        async with self._get(url, {}, {"query": query}) as response:
            kind = self._check(response)
            if kind != "application/json":
                raise EndpointError(
                    f"{self.shown} answers with {kind or 'no type'}, expected that of a Prometheus server; "
                    "the URL of Prometheus text has metrics in its path"
                )
            pieces: list[bytes] = []
            async for piece in response.content.iter_chunked(_PIECE):
                pieces.append(piece)
                if sum(map(len, pieces)) > MOST_ANSWER:
                    raise EndpointError(f"{self.shown} answers with more than {MOST_ANSWER >> 20} MiB")
            return b"".join(pieces)

    def _get(
        self, url: str, headers: dict[str, str], params: dict[str, str] | None = None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        assert self._session is not None  # noqa: S101  made in read
        # A redirect is an answer that cannot be used: the token goes nowhere else.
        return self._session.get(
            url,
            headers=headers | self._headers,
            params=params,
            ssl=self._tls,
            # Of an exporter behind a name both are known, and either may be excepted.
            proxy=environment_proxy(url) if environment_proxy(self._url) else None,
            allow_redirects=False,
        )

    def _check(self, response: aiohttp.ClientResponse) -> str:
        """The type of an answer that can be used.

        Raises:
            EndpointError: it is an error, or packed.
        """
        if response.status in _NOT_AUTHORIZED:
            token = self._access.files.token
            how = f"the token in {token} has no right to it" if token else "it expects a token"
            raise EndpointError(f"{self.shown} answers with HTTP {response.status}: {how}")
        if response.status != _OK:
            raise EndpointError(f"{self.shown} answers with HTTP {response.status}")
        packed = response.headers.get("Content-Encoding", "identity")
        if packed != "identity":
            raise EndpointError(f"{self.shown} answers packed ({packed[:40]}), which was not asked for")
        return response.content_type if "Content-Type" in response.headers else ""

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _block_signals() -> None:
    # Signals, the time limit of plugins among them, are for the main thread.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
