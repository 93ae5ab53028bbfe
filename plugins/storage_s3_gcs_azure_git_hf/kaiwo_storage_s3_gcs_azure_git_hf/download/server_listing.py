"""Reads the listing of a server for a downloader of another package."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    ConfigError,
    DownloadError,
    NetworkError,
    NotAvailableError,
    is_retryable_status,
    requested_wait,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.http_client import (
    HttpStatusError,
    RedirectError,
    check_status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy
    from kaiwo_storage_s3_gcs_azure_git_hf.download.http_client import HttpClient

MAX_BYTES: Final = 16 * 1024**2
"""Bytes of a listing that is read at once."""

_DENIED: Final = (401, 403)
_MISSING: Final = (404, 410)


@dataclass(frozen=True, slots=True)
class ListingReader:
    """Reads listings under the policy of a session.

    Attributes:
        client: sends the requests.
        proxy: the egress proxy.
        retry: runs an action, again while its failure is transient.
    """

    client: HttpClient
    proxy: EgressProxy
    retry: Callable[[Callable[[], bytes]], bytes]

    def read(
        self,
        where: str,
        url: str,
        *,
        method: str,
        headers: Mapping[str, str] | None,
        body: bytes | None,
    ) -> bytes:
        """Read the body of a response, again while the server does not recover.

        Args:
            where: the item, for messages.
            url: an http or https URL without credentials.
            method: the method.
            headers: dropped when a redirect leaves the origin of the URL.
            body: the body of the request.

        Raises:
            DownloadError: it cannot be read.
        """
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname or "@" in place.netloc:
            raise ConfigError(
                where, "invalid URL: expected http or https, and no credentials in it", "correct the URL"
            )
        if blocked := self.proxy.register_endpoint(url):
            raise ConfigError(where, blocked, "use an endpoint that workloads may reach")
        name = f"{place.scheme}://{place.netloc}{place.path}"

        def response() -> bytes:
            try:
                with self.client.send(method, url, credentials=headers, body=body, endpoint=True) as found:
                    check_status(found)
                    data = found.read(MAX_BYTES + 1)
                    # The standard library does not say that less came than the server had announced.
                    if found.length and len(data) <= MAX_BYTES:
                        raise ConnectionError("response ended early")
                    return data
            except (OSError, http.client.HTTPException, RedirectError) as error:
                raise _to_download_error(self.proxy, where, name, error) from None

        data = self.retry(response)
        if len(data) > MAX_BYTES:
            raise ConfigError(
                where,
                f"{name}: the listing is larger than {MAX_BYTES >> 20} MiB",
                "name a folder further down",
            )
        return data


def _to_download_error(proxy: EgressProxy, where: str, name: str, error: Exception) -> DownloadError:
    if blocked := proxy.last_blocked():
        return ConfigError(
            where, f"{name}: connection blocked: {blocked}", "use an endpoint that workloads may reach"
        )
    if isinstance(error, RedirectError):
        return ConfigError(where, f"{name}: redirect blocked: {error}", "check the endpoint")
    if isinstance(error, HttpStatusError) and not is_retryable_status(error.status):
        if error.status in _DENIED:
            return NotAvailableError(where, f"{name}: access denied ({error})", "check the credentials")
        what = "not found" if error.status in _MISSING else "listing failed"
        return NotAvailableError(where, f"{name}: {what} ({error})", "check the URL")
    cause = str(error) if isinstance(error, HttpStatusError) else "no response"
    cause = proxy.last_unreachable() or cause
    return NetworkError(
        where,
        f"{name}: listing failed: {cause}",
        "check the endpoint and the network",
        requested_wait(error),
    )
