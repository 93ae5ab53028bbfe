"""A client for container registries (OCI distribution API) that needs no container engine.

It requests all content by digest and verifies the digest.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import platform
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

_REFERENCE = re.compile(r"(?P<host>[^/@\s]+)/(?P<name>[^@\s]+)@(?P<digest>sha256:[0-9a-f]{64})")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')

_MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_MAX_MANIFEST_BYTES = 4 << 20  # the distribution specification asks registries to accept this size
_MAX_LAYER_BYTES = 1 << 30
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_GO_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image by digest: ``HOST[:PORT]/NAME@sha256:DIGEST``."""

    host: str
    name: str
    digest: str

    def __str__(self) -> str:
        """Format the reference as users write it."""
        return f"{self.host}/{self.name}@{self.digest}"


def parse(text: str, *, field: str) -> ImageReference:
    """Parse an image reference; `field` is its place in the file, for error messages.

    Raises:
        SandboxError: the registry or the digest is missing.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise SandboxError(
            f'{field}: expected an image by digest (HOST/NAME@sha256:DIGEST), got "{text}"',
            hint="copy the digest that the project publishes for its release; tags can be moved",
        )
    return ImageReference(match["host"], match["name"], match["digest"])


class ImageRegistryClient:
    """Anonymous read access to one image."""

    def __init__(self, reference: ImageReference) -> None:
        scheme = "http" if _is_loopback(reference.host) else "https"
        self._reference = reference
        self._base = f"{scheme}://{reference.host}/v2/{reference.name}"
        self._token: str | None = None

    def layers(self) -> list[dict[str, Any]]:
        """Read the descriptors of the image's layers for this machine, lowest first.

        Raises:
            SandboxError: the registry failed, or the image has no variant for this machine.
        """
        document = self._manifest(self._reference.digest)
        if "manifests" in document:
            document = self._manifest(self._choose(document["manifests"]))
        layers = document.get("layers")
        if not isinstance(layers, list) or not all(_is_descriptor(layer) for layer in layers):
            raise self._error("its manifest lists no layers")
        return layers

    def download(self, digest: str, target: Path) -> None:
        """Download a blob to `target` and verify its digest.

        Raises:
            SandboxError: the registry failed, or the digest differs.
        """
        checksum = hashlib.sha256()
        size = 0
        with self._open(f"{self._base}/blobs/{digest}", accept="*/*") as response, target.open("wb") as file:
            while chunk := response.read(_CHUNK):
                size += len(chunk)
                if size > _MAX_LAYER_BYTES:
                    raise self._error(f"layer {digest} is larger than {_MAX_LAYER_BYTES} bytes")
                checksum.update(chunk)
                file.write(chunk)
        if f"sha256:{checksum.hexdigest()}" != digest:
            raise self._error(f"layer {digest} has another checksum")

    def _choose(self, manifests: Any) -> str:
        architecture = _GO_ARCHITECTURES.get(platform.machine(), platform.machine())
        entries = (
            [entry for entry in manifests if _is_descriptor(entry)] if isinstance(manifests, list) else []
        )
        for entry in entries:
            variant = entry.get("platform") or {}
            if (variant.get("os"), variant.get("architecture")) == ("linux", architecture):
                return str(entry["digest"])
        raise self._error(f"it has no variant for linux/{architecture}")

    def _manifest(self, digest: str) -> dict[str, Any]:
        with self._open(f"{self._base}/manifests/{digest}", accept=", ".join(_MANIFEST_TYPES)) as response:
            text = response.read(_MAX_MANIFEST_BYTES + 1)
        if f"sha256:{hashlib.sha256(text).hexdigest()}" != digest:
            raise self._error(f"manifest {digest} has another checksum")
        try:
            document = json.loads(text)
        except ValueError as error:
            raise self._error("its manifest is not JSON") from error
        if not isinstance(document, dict):
            raise self._error("its manifest is not an object")
        return document

    def _open(self, url: str, *, accept: str) -> IO[bytes]:
        """Open a URL; after the first response 401, request an anonymous token and try again."""
        try:
            return self._request(url, accept)
        except urllib.error.HTTPError as error:
            with error:
                challenge = error.headers.get("WWW-Authenticate", "")
                if error.code != http.client.UNAUTHORIZED or self._token is not None:
                    raise self._error(f"GET {url}: {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._error(f"GET {url}: {error}") from error
        self._token = self._fetch_token(challenge)
        return self._open(url, accept=accept)

    def _request(self, url: str, accept: str) -> IO[bytes]:
        request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 - http(s), see __init__
        if self._token:
            # The registry redirects blobs to other hosts, and those must not receive the token.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        opened: IO[bytes] = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)  # noqa: S310 - as above
        return opened

    def _fetch_token(self, challenge: str) -> str:
        fields = dict(_CHALLENGE.findall(challenge))
        realm = fields.pop("realm", "")
        secure = realm.startswith("https://")
        local = realm.startswith("http://") and _is_loopback(urllib.parse.urlsplit(realm).netloc)
        if not challenge.lower().startswith("bearer ") or not (secure or local):
            raise self._error("the registry requires a login; only anonymous access is supported")
        query = {key: value for key, value in fields.items() if key in {"service", "scope"}}
        query.setdefault("scope", f"repository:{self._reference.name}:pull")
        try:
            with self._request(f"{realm}?{urllib.parse.urlencode(query)}", "application/json") as response:
                document = json.loads(response.read(_MAX_MANIFEST_BYTES))
            return str(document.get("token") or document["access_token"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, AttributeError) as error:
            raise self._error("the registry's token service returned no token") from error

    def _error(self, detail: str) -> SandboxError:
        return SandboxError(
            f"cannot read image {self._reference}",
            detail=detail,
            hint="check the reference and the connection, or unset KAIWO_SANDBOX_IMAGES to build with Go",
        )


def _is_descriptor(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("digest"), str)


def _is_loopback(host: str) -> bool:
    name = urllib.parse.urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
