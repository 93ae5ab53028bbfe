"""A client for container registries (OCI distribution API) that needs no container engine.

It verifies the digest of everything: of the manifest that a tag names, of the variant for this machine, of
the image's configuration and of the layers.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import platform
import re
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo_sandbox.binaries.transfer import TransferError
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo_sandbox.binaries.transfer import TransferSession

_REFERENCE = re.compile(
    r"(?P<host>[a-zA-Z0-9.-]+(:[0-9]+)?)/(?P<name>[a-z0-9._/-]+)"
    r"(:(?P<tag>[\w][\w.-]{0,127}))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')

_MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_MAX_MANIFEST_BYTES = 4 << 20  # the distribution specification asks registries to accept this size
_MAX_LAYER_BYTES = 512 << 20
_MAX_LAYERS = 128
_GO_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image by tag, by digest or by both: ``HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]``."""

    host: str
    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """Format the reference as users write it."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.name}{tag}{digest}"


def parse(text: str, *, field: str) -> ImageReference:
    """Parse an image reference; `field` is its place in the file, for error messages.

    Raises:
        SandboxError: the registry is missing, or both the tag and the digest.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or not (match["tag"] or match["digest"]):
        raise SandboxError(
            f'{field}: expected an image (HOST/NAME:TAG, HOST/NAME@sha256:DIGEST or both), got "{text}"',
            hint="with a digest, content of another digest is refused",
        )
    return ImageReference(match["host"], match["name"], match["tag"] or "", match["digest"] or "")


def architecture() -> str:
    """The processor of this machine, as image indexes name it."""
    return _GO_ARCHITECTURES.get(platform.machine(), platform.machine())


class ImageError(Exception):
    """An image cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The digest and the compressed size of a layer."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """An image for this machine.

    Attributes:
        digest: of what the tag names, which may be an index of variants.
        manifest: digest of the manifest for this machine.
        config: digest of the configuration.
        layers: lowest first.
    """

    digest: str
    manifest: str
    config: str
    layers: tuple[Layer, ...]


class ImageRegistryClient:
    """Anonymous read access to one image."""

    def __init__(self, reference: ImageReference, transfer: TransferSession) -> None:
        self._reference = reference
        self._transfer = transfer
        self._base = f"https://{reference.host}/v2/{reference.name}"
        self._token = ""

    def resolve(self) -> ImageManifest:
        """Read the manifest for this machine and verify its configuration.

        Raises:
            ImageError: a digest differs, or the image has no variant for this machine.
            TransferError: the registry failed.
        """
        digest, document = self._manifest(self._reference.digest or self._reference.tag)
        manifest = digest
        if "manifests" in document:
            manifest, document = self._manifest(self._choose(document["manifests"]))
        layers = document.get("layers")
        if not isinstance(layers, list) or not 0 < len(layers) <= _MAX_LAYERS:
            raise ImageError("its manifest lists no layers, or too many")
        config = _digest_of(document.get("config"))
        self._check_platform(self._get("configuration", f"blobs/{config}", config))
        return ImageManifest(digest, manifest, config, tuple(_layer(each) for each in layers))

    def download(self, layer: Layer, target: Path) -> None:
        """Download a layer to `target`, continue a part that is there, and verify its digest.

        Raises:
            ImageError: the digest differs.
            TransferError: the registry failed.
        """
        url = f"{self._base}/blobs/{layer.digest}"
        self._authorized(
            lambda headers: self._transfer.download(url, target, size=layer.size, headers=headers)
        )
        with target.open("rb") as file:
            found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if found != layer.digest:
            target.unlink()
            raise _another_digest("layer", layer.digest, found)

    def _choose(self, manifests: Any) -> str:
        wanted = ("linux", architecture())
        for entry in manifests if isinstance(manifests, list) else []:
            variant = entry.get("platform") if isinstance(entry, dict) else None
            if isinstance(variant, dict) and (variant.get("os"), variant.get("architecture")) == wanted:
                return _digest_of(entry)
        raise ImageError(f"it has no variant for {'/'.join(wanted)}")

    def _check_platform(self, text: bytes) -> None:
        """Check the configuration; an image without an index says there for which machine it is."""
        config = _parse(text, "configuration")
        found = f"{config.get('os')}/{config.get('architecture')}"
        if found != f"linux/{architecture()}":
            raise ImageError(f"it is for {found}; this machine is linux/{architecture()}")

    def _manifest(self, name: str) -> tuple[str, dict[str, Any]]:
        """The digest and the content of a manifest, by tag or digest."""
        expected = name if _DIGEST.fullmatch(name) else ""
        text = self._get("manifest", f"manifests/{name}", expected)
        return f"sha256:{hashlib.sha256(text).hexdigest()}", _parse(text, "manifest")

    def _get(self, what: str, path: str, digest: str) -> bytes:
        """Read a manifest or a configuration; verify its digest unless that is not known yet."""
        text = bytearray()

        def read(headers: dict[str, str]) -> None:
            headers = {**headers, "Accept": ", ".join((*_MANIFEST_TYPES, "*/*;q=0.1"))}
            text[:] = self._transfer.get(f"{self._base}/{path}", limit=_MAX_MANIFEST_BYTES, headers=headers)

        self._authorized(read)
        found = f"sha256:{hashlib.sha256(text).hexdigest()}"
        if digest and found != digest:
            raise _another_digest(what, digest, found)
        return bytes(text)

    def _authorized(self, send: Callable[[dict[str, str]], None]) -> None:
        """Send a request; after the response 401, get an anonymous token and send it once more."""
        try:
            send(self._authorization())
        except TransferError as error:
            if error.code != http.client.UNAUTHORIZED:
                raise
            self._token = self._fetch_token(error.challenge)
            send(self._authorization())

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _fetch_token(self, challenge: str) -> str:
        fields = dict(_CHALLENGE.findall(challenge))
        realm = fields.pop("realm", "")
        if not challenge.lower().startswith("bearer ") or not realm.startswith("https://"):
            raise ImageError("the registry requires a login; only anonymous access is supported")
        query = {key: value for key, value in fields.items() if key in {"service", "scope"}}
        query.setdefault("scope", f"repository:{self._reference.name}:pull")
        url = f"{realm}{'&' if '?' in realm else '?'}{urllib.parse.urlencode(query)}"
        document = _parse(self._transfer.get(url, limit=_MAX_MANIFEST_BYTES), "token")
        token = document.get("token") or document.get("access_token")
        # It becomes a header, so a line break in it would add headers.
        if not isinstance(token, str) or not token.isprintable() or not token.isascii():
            raise ImageError("the registry's token service returned no token")
        return token


def _layer(item: Any) -> Layer:
    digest = _digest_of(item)
    size = item.get("size")
    if not isinstance(size, int) or not 0 < size <= _MAX_LAYER_BYTES:
        raise ImageError(f"layer {digest} has the size {size}; expected at most {_MAX_LAYER_BYTES} bytes")
    return Layer(digest, size)


def _digest_of(item: Any) -> str:
    digest = item.get("digest") if isinstance(item, dict) else None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ImageError("its manifest has a descriptor without a sha256 digest")
    return digest


def _parse(text: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"its {what} is not JSON") from error
    if not isinstance(document, dict):
        raise ImageError(f"its {what} is not an object")
    return document


def _another_digest(what: str, expected: str, found: str) -> ImageError:
    return ImageError(f"its {what} has another digest: expected {expected}, got {found}")
