"""AWS Signature Version 4 of requests without content.

The object store client signs its own requests; this is for the header that it cannot send. Amazon S3 refuses
``x-amz-*`` headers that are not part of the signature, so signing a URL beforehand is not enough.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY = hashlib.sha256().hexdigest()


@dataclass(frozen=True, slots=True)
class Keys:
    """Who signs, and for which region."""

    access_key_id: str
    secret_access_key: str
    region: str

    def __repr__(self) -> str:
        """Without the keys."""
        return f"Keys({self.region})"


def signed(keys: Keys, method: str, url: str, more: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Headers of a signed request to S3.

    Args:
        keys: who signs.
        method: the HTTP method.
        url: an URL without a query, its path quoted.
        more: further headers, which are signed too.
        now: the time, in UTC.

    Returns:
        All headers, `more` and ``Host`` among them.
    """
    place = urlsplit(url)
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {
        **{name.lower(): value for name, value in more.items()},
        "host": place.netloc,
        "x-amz-content-sha256": _EMPTY,
        "x-amz-date": moment,
    }
    names = ";".join(sorted(headers))
    path = quote(place.path, safe="/%~") or "/"
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    request = "\n".join([method, path, "", *lines, "", names, _EMPTY])
    scope = f"{moment[:8]}/{keys.region}/s3/aws4_request"
    text = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{keys.secret_access_key}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{keys.access_key_id}/{scope}"
    proof = f"Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "authorization": f"{_ALGORITHM} {proof}"}
