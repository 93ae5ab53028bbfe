"""Checks the URL of an endpoint before an object store client gets it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
"""DNS names and addresses."""

_URL_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
"""A path of a URL (RFC 3986 3.3)."""


def split_endpoint(where: str, url: str) -> SplitResult:
    """Split a URL for an object store client, which would crash with some texts.

    Raises:
        ConfigError: it is not an endpoint.
    """
    try:
        place = urlsplit(url)
        valid = (
            place.scheme in ("http", "https") and place.port != 0 and _HOST.fullmatch(place.hostname or "")
        )
    except ValueError:
        valid = False
    if not valid or place.query or place.fragment or not _URL_PATH.fullmatch(place.path):
        raise ConfigError(
            where, "invalid endpoint: expected an http or https URL without a query", "correct the URL"
        )
    return place
