"""Response headers of one object, which the object store client does not show."""

from __future__ import annotations

import contextlib
import email.utils
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_VALID = timedelta(minutes=5)
_SECONDS = 30


class Headers:
    """Asks for the headers of objects of one store."""

    def __init__(
        self, remote: Any, gate_url: str, plain_url: str | None, more: Mapping[str, str] | None = None
    ) -> None:
        """Prepare.

        Args:
            remote: the object store client, which signs the request.
            gate_url: the proxy to go through.
            plain_url: for anonymous access, the URL below which keys are; None when requests are signed.
            more: headers of every request; a redirect does not carry them to another host.
        """
        self._remote = remote
        self._plain_url = plain_url
        self._more = dict(more or {})
        proxy = urllib.request.ProxyHandler({"http": gate_url, "https": gate_url})
        self._opener = urllib.request.build_opener(proxy)

    def of(self, key: str) -> Mapping[str, str]:
        """The headers of an object; empty when the store does not tell."""
        try:
            return self._ask(key)
        except (urllib.error.URLError, OSError):
            return {}

    def ranged(self, key: str) -> bool:
        """Whether an object can be read in ranges (RFC 9110 14.3)."""
        given = {name.lower(): value.lower() for name, value in self.of(key).items()}
        return given.get("accept-ranges", "").strip() == "bytes"

    def patience(self, key: str) -> float:
        """Seconds that a busy store asks to wait before the next request; 0 when it does not say."""
        try:
            self._ask(key)
        except urllib.error.HTTPError as error:
            with error:
                return seconds(error.headers.get("Retry-After", ""))
        except (urllib.error.URLError, OSError):
            pass
        return 0.0

    def _ask(self, key: str) -> Mapping[str, str]:
        import obstore  # noqa: PLC0415 - only the download container has it

        url = (
            f"{self._plain_url}/{urllib.parse.quote(key)}"
            if self._plain_url is not None
            else obstore.sign(self._remote, "HEAD", key, _VALID)
        )
        request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - the gate checks where it goes
        for name, value in self._more.items():
            request.add_unredirected_header(name, value)
        with self._opener.open(request, timeout=_SECONDS) as answer:
            return dict(answer.headers.items())


def seconds(value: str) -> float:
    """What a Retry-After header says (RFC 9110 10.2.3: seconds, or a date); 0 when it says nothing."""
    if value.strip().isdecimal():
        return float(value)
    with contextlib.suppress(ValueError, TypeError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0
