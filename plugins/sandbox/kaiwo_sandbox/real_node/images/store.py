"""Images on disk: one directory per image in the cache, with its manifest and its blobs."""

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

FORMAT = "1"
"""Raise it when the same files make another image."""

MANIFEST = "manifest.json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
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
        environment: environment variables besides PATH.
        user: user and group, empty for root.
        directory: the working directory.
    """

    name: str
    trees: Sequence[Tree]
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
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
                _write(image, configuration, fresh)
                fresh.rename(target)
            for older in root.glob(f"{stem}-*"):
                if older != target:
                    shutil.rmtree(older, ignore_errors=True)
    return target


def digest(directory: Path) -> str:
    """The digest of the image in this directory, which is that of its manifest."""
    return f"sha256:{hashlib.sha256((directory / MANIFEST).read_bytes()).hexdigest()}"


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
    return config


def _write(image: Image, configuration: dict[str, Any], target: Path) -> None:
    blobs = target / "blobs"
    blobs.mkdir(parents=True)
    digests = []
    descriptors = []
    for number, tree in enumerate(image.trees):
        temporary = blobs / f"layer-{number}"
        content, size = layers.write(tree, temporary)
        temporary.rename(blobs / content)
        digests.append(f"sha256:{content}")
        descriptors.append({"mediaType": _LAYER_TYPE, "digest": f"sha256:{content}", "size": size})
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": configuration,
            "rootfs": {"type": "layers", "diff_ids": digests},
        }
    ).encode()
    config_digest = hashlib.sha256(config).hexdigest()
    (blobs / config_digest).write_bytes(config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": _CONFIG_TYPE, "digest": f"sha256:{config_digest}", "size": len(config)},
        "layers": descriptors,
    }
    (target / MANIFEST).write_text(json.dumps(manifest))
