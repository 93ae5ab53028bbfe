"""Images on disk: one OCI image layout per image in the cache."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir, make_private
from kaiwo_sandbox.real_node.images import layers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo_sandbox.real_node.images.layers import Tree

FORMAT = "2"
"""Raise it when the same files make another image."""

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Image:
    """What an image is made of.

    Attributes:
        name: repository and tag, such as ``busybox:1``.
        trees: the files of each layer, the lowest first.
        entrypoint: the command, before `arguments`.
        arguments: default arguments.
        environment: environment variables; PATH has a default.
        labels: what the image says of itself.
        user: user and group, empty for root.
        directory: the working directory.
    """

    name: str
    trees: Sequence[Tree]
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    directory: str = "/"


def ensure(image: Image) -> Path:
    """The directory of the image in the cache. It is made if what the image is made of has changed."""
    configuration = _configuration(image)
    made_of = [FORMAT, json.dumps(configuration), *map(layers.digest_of_sources, image.trees)]
    key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    root = make_private(cache_dir()) / "images"
    stem = image.name.replace("/", "_").replace(":", "_")
    target = root / f"{stem}-{key}"
    with locked(cache_dir() / "images.lock"):
        if not target.is_dir():
            root.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="new-", dir=root) as temporary:
                fresh = Path(temporary, "image")
                write(image, fresh)
                fresh.rename(target)
            for older in root.glob(f"{stem}-*"):
                if older != target:
                    shutil.rmtree(older, ignore_errors=True)
    return target


def digest(directory: Path) -> str:
    """The digest of the image in this directory, which is that of its manifest."""
    index = json.loads((directory / "index.json").read_bytes())
    return str(index["manifests"][0]["digest"])


def blob(directory: Path, digest: str) -> Path:
    """The file with this digest in the directory of an image."""
    return directory / "blobs" / digest.replace(":", "/")


def _configuration(image: Image) -> dict[str, Any]:
    environment = {"PATH": _PATH, **image.environment}
    config: dict[str, Any] = {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": image.directory,
    }
    if image.entrypoint:
        config["Entrypoint"] = list(image.entrypoint)
    if image.arguments:
        config["Cmd"] = list(image.arguments)
    if image.user:
        config["User"] = image.user
    if image.labels:
        config["Labels"] = dict(image.labels)
    return config


def write(image: Image, target: Path) -> str:
    """Write the image as an OCI image layout into a new directory; its digest."""
    blobs = target / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    digests = []
    descriptors = []
    for number, tree in enumerate(image.trees):
        temporary = blobs / f"layer-{number}"
        content, size = layers.write(tree, temporary)
        temporary.rename(blobs / content)
        digests.append(f"sha256:{content}")
        descriptors.append({"mediaType": _LAYER_TYPE, "digest": f"sha256:{content}", "size": size})
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": _configuration(image),
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _add_document(blobs, config, _CONFIG_TYPE),
        "layers": descriptors,
    }
    described = _add_document(blobs, manifest, MANIFEST_TYPE)
    described["platform"] = {"architecture": architecture, "os": "linux"}
    described["annotations"] = {"org.opencontainers.image.ref.name": image.name.rpartition(":")[2]}
    index = {"schemaVersion": 2, "mediaType": _INDEX_TYPE, "manifests": [described]}
    (target / "index.json").write_text(json.dumps(index))
    (target / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(described["digest"])


def _add_document(blobs: Path, document: dict[str, Any], media_type: str) -> dict[str, Any]:
    """Write a document as a blob; its descriptor."""
    content = json.dumps(document).encode()
    name = hashlib.sha256(content).hexdigest()
    (blobs / name).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(content)}
