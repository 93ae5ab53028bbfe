"""Python's own HTTP client, connected through the egress proxy."""

from __future__ import annotations

import urllib.request
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download.urls import crosses_origin

if TYPE_CHECKING:
    from http.client import HTTPMessage


class _EgressProxyHandler(urllib.request.ProxyHandler):
    """Sends every request to the egress proxy; the base class bypasses it for hosts that NO_PROXY names."""

    def __init__(self, host: str, port: int) -> None:
        self._place = f"{host}:{port}"
        super().__init__(dict.fromkeys(("http", "https"), f"http://{self._place}"))

    def proxy_open(self, req: urllib.request.Request, proxy: str, type: str) -> None:  # noqa: A002, ARG002 - the base class's signature
        """Set the proxy of a request."""
        req.set_proxy(self._place, "http")


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirects as other clients do; the base class resends neither a body nor credentials."""

    def redirect_request(  # noqa: PLR0917 - the signature of the base class
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The request that follows a redirect; credentials stay within their origin."""
        if req.data is None or code == 303:  # noqa: PLR2004 - See Other: ask there with GET (RFC 9110 15.4.4)
            onward = super().redirect_request(req, fp, code, msg, headers, newurl)
        else:
            onward = urllib.request.Request(newurl, req.data, req.headers)  # noqa: S310 - the egress proxy checks
        given = req.unredirected_hdrs.get("Authorization")
        if onward and given and not crosses_origin(urlsplit(req.full_url), urlsplit(newurl)):
            onward.add_unredirected_header("Authorization", given)
        return onward

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


def build_opener(host: str, port: int) -> urllib.request.OpenerDirector:
    """A client that connects through the egress proxy at this address."""
    return urllib.request.build_opener(_EgressProxyHandler(host, port), _RedirectHandler)
