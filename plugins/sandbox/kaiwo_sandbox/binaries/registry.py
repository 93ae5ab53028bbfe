"""Reading images from a container registry over the OCI distribution API, without a container engine.

Everything is asked for by digest and checked against it, so a registry cannot hand out something else.
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

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_LARGEST_MANIFEST = 4 << 20  # the distribution specification asks registries to accept at least this much
_LARGEST_LAYER = 1 << 30
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Reference:
    """An image by digest: ``HOST[:PORT]/NAME@sha256:DIGEST``."""

    host: str
    name: str
    digest: str

    def __str__(self) -> str:
        """The reference as it is written."""
        return f"{self.host}/{self.name}@{self.digest}"


def parse(text: str, *, where: str) -> Reference:
    """Parse an image reference.

    Raises:
        SandboxError: it names no registry, or no digest.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise SandboxError(
            f"{where}: {text!r} is not an image by digest.",
            why="A tag can be moved to another image; only HOST/NAME@sha256:DIGEST names exactly one.",
            next_step="Write the digest that the project publishes for its release.",
        )
    return Reference(match["host"], match["name"], match["digest"])


class Registry:
    """Anonymous reading of one repository."""

    def __init__(self, reference: Reference) -> None:
        scheme = "http" if _is_loopback(reference.host) else "https"
        self._reference = reference
        self._base = f"{scheme}://{reference.host}/v2/{reference.name}"
        self._token: str | None = None

    def layers(self) -> list[dict[str, Any]]:
        """The descriptors of the image's layers for this machine, lowest first.

        Raises:
            SandboxError: the registry fails, or the image is not made for this machine.
        """
        document = self._manifest(self._reference.digest)
        if "manifests" in document:
            document = self._manifest(self._choose(document["manifests"]))
        layers = document.get("layers")
        if not isinstance(layers, list) or not all(_is_descriptor(layer) for layer in layers):
            raise self._failure("its manifest lists no layers")
        return layers

    def download(self, digest: str, target: Path) -> None:
        """Write the blob to `target` and check it.

        Raises:
            SandboxError: the registry fails, or sends something else.
        """
        found = hashlib.sha256()
        size = 0
        with self._open(f"{self._base}/blobs/{digest}", accept="*/*") as answer, target.open("wb") as file:
            while chunk := answer.read(_CHUNK):
                size += len(chunk)
                if size > _LARGEST_LAYER:
                    raise self._failure(f"layer {digest} is larger than {_LARGEST_LAYER} bytes")
                found.update(chunk)
                file.write(chunk)
        if f"sha256:{found.hexdigest()}" != digest:
            raise self._failure(f"what came as {digest} has another checksum")

    def _choose(self, manifests: Any) -> str:
        architecture = _MACHINES.get(platform.machine(), platform.machine())
        entries = (
            [entry for entry in manifests if _is_descriptor(entry)] if isinstance(manifests, list) else []
        )
        for entry in entries:
            made_for = entry.get("platform") or {}
            if (made_for.get("os"), made_for.get("architecture")) == ("linux", architecture):
                return str(entry["digest"])
        raise self._failure(f"it has no variant for linux/{architecture}")

    def _manifest(self, digest: str) -> dict[str, Any]:
        with self._open(f"{self._base}/manifests/{digest}", accept=", ".join(_MANIFESTS)) as answer:
            text = answer.read(_LARGEST_MANIFEST + 1)
        if f"sha256:{hashlib.sha256(text).hexdigest()}" != digest:
            raise self._failure(f"the manifest that came as {digest} has another checksum")
        try:
            document = json.loads(text)
        except ValueError as error:
            raise self._failure("its manifest is not JSON") from error
        if not isinstance(document, dict):
            raise self._failure("its manifest is not an object")
        return document

    def _open(self, url: str, *, accept: str) -> IO[bytes]:
        """Open a URL; on 401 get the anonymous token that the registry asks for, once."""
        try:
            return self._request(url, accept)
        except urllib.error.HTTPError as error:
            with error:
                challenge = error.headers.get("WWW-Authenticate", "")
                if error.code != http.client.UNAUTHORIZED or self._token is not None:
                    raise self._failure(f"{url} answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(f"{url}: {error}") from error
        self._token = self._fetch_token(challenge)
        return self._open(url, accept=accept)

    def _request(self, url: str, accept: str) -> IO[bytes]:
        request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 - http(s), see __init__
        if self._token:
            # Blobs are redirected to storage that must not see the token.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        opened: IO[bytes] = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)  # noqa: S310 - as above
        return opened

    def _fetch_token(self, challenge: str) -> str:
        fields = dict(_CHALLENGE.findall(challenge))
        realm = fields.pop("realm", "")
        secure = realm.startswith("https://")
        local = realm.startswith("http://") and _is_loopback(urllib.parse.urlsplit(realm).netloc)
        if not challenge.lower().startswith("bearer ") or not (secure or local):
            raise self._failure("the registry asks for a login that an anonymous reader cannot give")
        query = {key: value for key, value in fields.items() if key in {"service", "scope"}}
        query.setdefault("scope", f"repository:{self._reference.name}:pull")
        try:
            with self._request(f"{realm}?{urllib.parse.urlencode(query)}", "application/json") as answer:
                document = json.loads(answer.read(_LARGEST_MANIFEST))
            return str(document.get("token") or document["access_token"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, AttributeError) as error:
            raise self._failure("the registry's token service gave no token") from error

    def _failure(self, why: str) -> SandboxError:
        return SandboxError(
            f"Image {self._reference} could not be read.",
            why=f"{why}.",
            next_step=(
                "Check the reference and the connection, or unset KAIWO_SANDBOX_IMAGES to build with Go."
            ),
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
