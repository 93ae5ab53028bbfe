"""Response headers of one object, which the object store client does not show."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_VALID = timedelta(minutes=5)
_SECONDS = 30


def reader(remote: Any, gate_url: str, plain_url: str | None) -> Callable[[str], Mapping[str, str]]:
    """A function that asks for the headers of a key; empty when the store does not tell.

    Args:
        remote: the object store client, which signs the request.
        gate_url: the proxy to go through.
        plain_url: for anonymous access, the URL below which keys are; None when requests are signed.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": gate_url, "https": gate_url}))

    def ask(key: str) -> Mapping[str, str]:
        import obstore  # noqa: PLC0415 - only the download container has it

        url = (
            f"{plain_url}/{urllib.parse.quote(key)}"
            if plain_url is not None
            else obstore.sign(remote, "HEAD", key, _VALID)
        )
        request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - the gate checks where it goes
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                return dict(answer.headers.items())
        except (urllib.error.URLError, OSError):
            return {}

    return ask
