"""Reads response headers of objects, which the object store client does not show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors
from kaiwo_storage_s3_gcs_azure_git_hf.download.http_client import RedirectError, retry_after_seconds

if TYPE_CHECKING:
    from kaiwo_storage_s3_gcs_azure_git_hf.download.http_client import HttpClient

HeadRequest: TypeAlias = Callable[[str], tuple[str, Mapping[str, str]]]
"""Takes a key; returns URL and headers of its HEAD request. Other origins do not get the headers."""

_SUCCESSFUL: Final = range(200, 300)
_NOT_IMPLEMENTED: Final = 501
_REFUSED: Final = 400


class HeaderReader:
    """Reads the headers of objects of one store."""

    def __init__(self, client: HttpClient, head_request: HeadRequest) -> None:
        """Prepare; nothing is requested yet.

        Args:
            client: sends the requests.
            head_request: makes the request for a key.
        """
        self._client = client
        self._head_request = head_request

    def read(self, key: str) -> Mapping[str, str]:
        """Read the headers of an object, names in lower case; empty when the store refuses.

        Raises:
            ConnectionError: the store is unreachable or busy.
        """
        try:
            status, headers = self._head(key)
        except OSError as error:
            raise ConnectionError(f"no response ({type(error).__name__})") from None
        if errors.is_retryable_status(status) and status != _NOT_IMPLEMENTED:
            raise ConnectionError(f"status code: {status}")
        return headers if status in _SUCCESSFUL else {}

    def supports_ranges(self, key: str) -> bool:
        """Whether an object can be read in ranges (RFC 9110 14.3)."""
        with contextlib.suppress(ConnectionError):
            return self.read(key).get("accept-ranges", "").strip().lower() == "bytes"
        return False

    def retry_after(self, key: str) -> float:
        """Seconds that a busy store asks to wait before the next request; 0 when it names none."""
        try:
            status, headers = self._head(key)
        except OSError:
            return 0.0
        if not errors.is_retryable_status(status):
            return 0.0
        return retry_after_seconds(headers.get("retry-after", ""))

    def _head(self, key: str) -> tuple[int, dict[str, str]]:
        """Status and headers of the response to a HEAD request, names in lower case.

        Raises:
            OSError: there was no response.
        """
        url, fields = self._head_request(key)
        try:
            with self._client.send("HEAD", url, credentials=fields, endpoint=True) as response:
                response.read()
                return response.status, {name.lower(): value for name, value in response.getheaders()}
        except RedirectError:
            return _REFUSED, {}
