"""The configuration of the download program, and the interface that a download source's code gets.

The operator renders a :class:`DownloadConfig` into a ConfigMap; the program ``kaiwo-download`` reads it.
Secret values are never in it: an item refers to them, and the program reads the files they are mounted as.

A source's downloader is a function ``fetch(items, downloads)``. It adds downloads by calling the methods
of :class:`Downloads` and returns; the transfer comes afterwards, for all sources together::

    def fetch(items: Sequence[Object], downloads: Downloads) -> None:
        for index, item in enumerate(items):
            downloads.http(f"http[{index}]", item["url"], item["targetPath"], sha256=item.get("sha256"))

The downloader of a source with settings takes them as a third argument, in JSON names, defaults included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias

from pydantic import Field, StringConstraints

from kaiwo.api.base_model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONTAINER = "download"
"""Name of the container of a download pod."""

SECRETS_PATH = "/app/secrets"
"""Below it every secret value is mounted as ``<secretName>/<secretKey>``."""

ItemObject: TypeAlias = dict[str, Any]
"""An item of a download source as the user wrote it."""

FunctionName: TypeAlias = Annotated[
    str, StringConstraints(max_length=512, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
]
"""``module:function``."""

AbsolutePath: TypeAlias = Annotated[str, StringConstraints(max_length=4096, pattern=r"^/")]


def item_key(path: Sequence[str]) -> str:
    """The key of a source's items in the document, from the path of its field below ``spec.storage``.

    ``("data", "download", "azureBlob")`` is ``azureBlob``, ``("huggingFace", "preCacheRepos")`` is
    ``huggingFace``.
    """
    return path[-1] if tuple(path[:2]) == ("data", "download") else path[0]


class DownloadPolicy(Model):
    """What the program may do on the network.

    Attributes:
        allow_private_endpoints: whether private addresses may be reached; link-local ones never are.
        ambient_credentials: whether the pod's or node's cloud identity may be used.
    """

    allow_private_endpoints: bool = True
    ambient_credentials: bool = False


class DownloadLimits(Model):
    """How much the program uses.

    Attributes:
        workers: ranged reads at the same time, over all items; memory is workers times part size.
        part_size: bytes of one ranged read.
        retry_seconds: how long a transient failure is retried, in seconds.
        stall_seconds: how long a connection may be silent before it counts as failed, in seconds.
    """

    workers: Annotated[int, Field(ge=1, le=256)] = 8
    part_size: Annotated[int, Field(ge=64 * 1024, le=1024**3)] = 8 * 1024**2
    retry_seconds: Annotated[int, Field(ge=0, le=86400)] = 180
    stall_seconds: Annotated[int, Field(ge=1, le=3600)] = 30


class DownloadConfig(Model):
    """The document.

    Attributes:
        version: version of this format.
        data_mount_path: where the data volume is mounted; None without one.
        hf_mount_path: where the Hugging Face cache is mounted; None without one.
        items: items as users wrote them, by :func:`item_key`.
        downloaders: ``module:function`` of each key of `items`.
        settings: of the plugins of sources, for the keys of `items` whose source names a settings model.
        policy: what may be done on the network.
        limits: how much may be used.
    """

    version: Literal[1]
    data_mount_path: AbsolutePath | None = None
    hf_mount_path: AbsolutePath | None = None
    items: dict[str, list[ItemObject]]
    downloaders: dict[str, FunctionName] = Field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    policy: DownloadPolicy = Field(default_factory=DownloadPolicy)
    limits: DownloadLimits = Field(default_factory=DownloadLimits)


class Downloads(Protocol):
    """What a downloader function can ask for. ``where`` names the item in messages, as ``s3[0].files[1]``.

    For an invalid item it raises ``ValueError`` (pydantic's is one) with the problem and what to do.
    """

    def secret(self, where: str, reference: Mapping[str, Any]) -> str:
        """The value of a reference ``{secretName, secretKey, file?}``, without surrounding white space."""
        ...

    def http(
        self,
        where: str,
        url: str,
        target: str,
        *,
        sha256: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Fetch one http or https URL into `target`, relative to the data volume.

        `headers` are not sent to another server after a redirect: ``Authorization`` and ``Cookie`` are left
        out there, and with any other header such a redirect fails the download.
        """
        ...

    def listing(
        self,
        where: str,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes:
        """The response of a server that lists what it has, read at once; at most 16 MiB.

        It is under the same rules as the downloads: what may be reached, how long a failure is retried, which
        exit code it has. `headers` are not sent to another server after a redirect.
        :mod:`kaiwo.plugin.kit.listings` reads WebDAV and index pages.
        """
        ...
