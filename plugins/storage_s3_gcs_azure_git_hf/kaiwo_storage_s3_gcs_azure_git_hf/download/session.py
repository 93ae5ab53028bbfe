"""A download session: collects what the items want, and plans the files on the volumes."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from kaiwo.plugin.kit.fields import ValueReference
from kaiwo_storage_s3_gcs_azure_git_hf import globs
from kaiwo_storage_s3_gcs_azure_git_hf.download import (
    endpoints,
    errors,
    folder_markers,
    listing,
    secret_files,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError, NotAvailableError
from kaiwo_storage_s3_gcs_azure_git_hf.download.http_client import HttpClient, RedirectError
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint
from kaiwo_storage_s3_gcs_azure_git_hf.download.object_headers import HeaderReader
from kaiwo_storage_s3_gcs_azure_git_hf.download.parallel import run_parallel
from kaiwo_storage_s3_gcs_azure_git_hf.download.retries import retry
from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import STATE_FOLDER, TargetClaims, TargetVolume
from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectFile, ObjectStore, TransferTask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo.plugin.kit.downloads import DownloadConfig
    from kaiwo_storage_s3_gcs_azure_git_hf.download.budget import DownloadBudget
    from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy
    from kaiwo_storage_s3_gcs_azure_git_hf.download.object_headers import HeadRequest

_T = TypeVar("_T")

_PARALLEL_LOOKUPS = 16
_MAX_NAME_BYTES = 255 - len(".part")
"""The longest name in bytes to which ``.part`` can be added on Linux file systems."""

_SHORT_NAME = _MAX_NAME_BYTES // 4
"""Characters that never need more bytes than that: UTF-8 has at most four for each."""

_DROPPED_BY_CLIENT = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that the object store client sends to no other server after a redirect; it sends all others."""

_PART_TIMEOUT = timedelta(minutes=30)
_FILE_TIMEOUT = timedelta(days=1)
"""For servers without ranges. A silent connection is closed long before."""


class DownloadSession:
    """The argument of downloader functions, a :class:`kaiwo.api.download.Downloads`.

    Attributes:
        config: the configuration.
        proxy: the egress proxy.
        budget: the limits on size and number of files.
        http_client: the HTTP client of the program.
        tasks: transfers that are not made of object files.
        preparations: what tasks do before anything is downloaded.
        warnings: one line each, shown at the end.
        stop: set after a failure; nothing new is started.
    """

    def __init__(
        self, config: DownloadConfig, proxy: EgressProxy, roots: Mapping[str, str], budget: DownloadBudget
    ) -> None:
        self.config = config
        self.proxy = proxy
        self.budget = budget
        self.http_client = HttpClient(proxy, config.limits.stall_seconds)
        self.tasks: list[TransferTask] = []
        self.preparations: list[Callable[[], None]] = []
        self.warnings: list[str] = []
        self._roots = roots
        self._volumes: dict[str, TargetVolume] = {}
        self._targets = TargetClaims()
        self._lookups: list[Callable[[], list[ObjectFile]]] = []
        self.stop = threading.Event()
        self._temporary = ExitStack()
        self._locks: dict[str, threading.Lock] = {}
        self._locks_guard = threading.Lock()

    def volume(self, name: str) -> TargetVolume:
        """The volume ``data`` or ``hf``.

        Raises:
            ConfigError: there is none, or nothing is mounted there.
        """
        if name not in self._volumes:
            mount = self._roots.get(name)
            if not mount:
                raise ConfigError("", f"no {name} volume", "set its storageSize")
            self._volumes[name] = TargetVolume(mount, f"the {name} volume")
        return self._volumes[name]

    @property
    def volumes(self) -> list[TargetVolume]:
        """The volumes in use."""
        return list(self._volumes.values())

    def secret(self, where: str, reference: Mapping[str, Any] | ValueReference) -> str:
        """Read the value of a reference to a Secret."""
        if not isinstance(reference, ValueReference):
            reference = ValueReference.parse(dict(reference))
        return secret_files.read_secret(where, reference)

    def headers(self, head_request: HeadRequest) -> HeaderReader:
        """A reader of the headers of a store's objects."""
        return HeaderReader(self.http_client, head_request)

    def close(self) -> None:
        """Close all connections of the HTTP client, and remove the temporary folders."""
        self.http_client.close()
        self._temporary.close()

    def scratch_folder(self, volume: TargetVolume) -> Path:
        """A temporary folder on a volume, until the session is closed."""
        return Path(self._temporary.enter_context(volume.scratch_folder()))

    def client(self, where: str, url: str) -> dict[str, Any]:
        """The client options to reach `url` through the egress proxy; http only when the URL says so.

        A literal address is checked here, and reached directly.

        Raises:
            ConfigError: the address is blocked.
        """
        place = endpoints.split_endpoint(where, url)
        blocked = self.proxy.register_endpoint(url)
        if blocked:
            raise ConfigError(where, blocked, "use an endpoint that workloads may reach")
        stall = timedelta(seconds=self.config.limits.stall_seconds)
        options: dict[str, Any] = {
            "allow_http": place.scheme == "http",
            "proxy_url": self.proxy.url,
            "connect_timeout": timedelta(seconds=15),
            "read_timeout": stall,
            "timeout": _PART_TIMEOUT,
            "user_agent": "kaiwo-download",
        }
        if place.hostname and self.proxy.is_direct(place.hostname):
            options["proxy_excludes"] = place.hostname
        return {"client_options": options, "retry_config": {"max_retries": 0, "retry_timeout": stall}}

    def object(
        self,
        where: str,
        store: ObjectStore,
        key: str,
        target: str,
        sha256: str | None = None,
        *,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Add one object, downloaded to `target`, relative to the data volume.

        `check` is called before its store is asked for anything.
        """
        volume = self.volume("data")
        path = volume.resolve(where, target)
        key = key.lstrip("/")  # as the client normalises it
        if path == volume.root or target.endswith("/"):
            raise ConfigError(where, "targetPath is not a file", "add a file name to targetPath")
        self._targets.claim(where, path, volume.root)

        def lookup() -> list[ObjectFile]:
            import obstore

            if check is not None:
                check()
            retry_after = partial(store.headers.retry_after, key) if store.headers else float
            meta = self._call(
                where, f"{store.name}/{key}", lambda: obstore.head(store.remote, key), retry_after
            )
            file = _file(where, store, meta, volume, path, key=key, sha256=sha256)
            if not file.size and self._call(where, file.name, lambda: folder_markers.is_azure_folder(file)):
                raise ConfigError(where, f"{file.name} is a folder", "name it in folders instead of files")
            if store.plain and store.headers and file.size > self.config.limits.part_size:
                file = replace(file, ranged=store.headers.supports_ranges(key))
            self.budget.add(where, files=1, size=file.size)
            return [file]

        self._lookups.append(lookup)

    def folder(self, where: str, store: ObjectStore, prefix: str, target: str, glob: str | None) -> None:
        """Add every object below `prefix` that matches; `target` is relative to the data volume."""
        volume = self.volume("data")
        base = volume.resolve(where, target)
        prefix = globs.listing_prefix(prefix)
        try:
            matches = globs.compile_glob(glob or globs.DEFAULT).fullmatch
        except ValueError as error:
            raise ConfigError(where, str(error), "correct the glob") from None
        name = f"{store.name}/{prefix}".rstrip("/")

        def lookup() -> list[ObjectFile]:
            found = []
            listed = self._call(where, name, lambda: listing.list_objects(where, store, prefix, self.budget))
            for meta in listed.values():
                relative = meta["path"][len(prefix) + 1 if prefix else 0 :]
                if relative and matches(relative):
                    path = volume.resolve(where, f"{os.path.relpath(base, volume.root)}/{relative}")
                    found.append(_file(where, store, meta, volume, path, key=meta["path"], sha256=None))
            found = folder_markers.without_markers(found, listed, self._call)
            if not found:
                raise NotAvailableError(
                    where,
                    f"no object in {name} matches {glob or globs.DEFAULT!r}",
                    globs.advice(glob) or "check path and glob; path matches whole folder names",
                )
            self.budget.add(where, files=len(found), size=sum(file.size for file in found))
            for file in found:
                self._targets.claim(where, file.path, volume.root)
            return found

        self._lookups.append(lookup)

    def http(
        self,
        where: str,
        url: str,
        target: str,
        *,
        sha256: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Add one http or https URL, downloaded to `target`, relative to the data volume."""
        from obstore.store import HTTPStore

        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname or place.query:
            raise ConfigError(where, "invalid URL: expected http or https, and no query", "correct url")
        root = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
        client = self.client(where, root)
        client["client_options"]["timeout"] = _FILE_TIMEOUT
        if headers:
            if not all(value.isascii() and value.isprintable() for value in headers.values()):
                raise ConfigError(where, "a header value is not one line of ASCII text", "correct the Secret")
            client["client_options"]["default_headers"] = dict(headers)
        remote = HTTPStore(root, **client)
        extra = dict(headers or {})
        reader = self.headers(lambda key: (f"{root}/{quote(key)}", extra))
        store = ObjectStore(remote, root, plain=True, headers=reader)
        key = unquote(place.path.lstrip("/"))
        url = f"{root}/{quote(key)}"
        follows = any(name.lower() not in _DROPPED_BY_CLIENT for name in extra)
        check = partial(self._check_redirects, where, url, extra) if follows else None
        self.object(where, store, key, target, sha256 and sha256.lower(), check=check)

    def _check_redirects(self, where: str, url: str, headers: Mapping[str, str]) -> None:
        """Check that a server sends the client nowhere else, which would take these headers along.

        Raises:
            DownloadError: it does, or does not respond.
        """

        def probe() -> None:
            with self.http_client.send(
                "GET",
                url,
                headers={"Range": "bytes=0-0"},
                credentials=headers,
                endpoint=True,
                same_origin=True,
            ):
                pass

        import ssl

        try:
            self.retry(probe)
        except RedirectError as error:
            raise ConfigError(
                where,
                f"{url}: redirect blocked, since {', '.join(sorted(headers))} would go with it: {error}",
                "name the URL of the other server, or send the credentials as Authorization",
            ) from None
        except ssl.SSLCertVerificationError:
            raise ConfigError(where, f"{url}: {errors.UNTRUSTED[0]}", errors.UNTRUSTED[1]) from None
        except OSError as error:
            raise self.to_download_error(where, url, ConnectionError(type(error).__name__)) from None

    def listing(
        self,
        where: str,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes:
        """Read the response of a server that lists what it has."""
        from kaiwo_storage_s3_gcs_azure_git_hf.download.server_listing import ListingReader

        reader = ListingReader(self.http_client, self.proxy, self.retry)
        return reader.read(where, url, method=method, headers=headers, body=body)

    def lock(self, name: str) -> threading.Lock:
        """The lock of this name, for work that two tasks must not do at once."""
        with self._locks_guard:
            return self._locks.setdefault(name, threading.Lock())

    def warn(self, where: str, message: str) -> None:
        """Add a warning, which is shown at the end of the run."""
        self.warnings.append(f"{where}: {message}")

    def claim_file(self, where: str, volume: TargetVolume, path: str) -> None:
        """Claim `path` for a task before it is written.

        Raises:
            ConfigError: another item writes it too, or it is in the state folder.
        """
        if path.startswith(os.path.join(volume.root, STATE_FOLDER, "")):  # noqa: PTH118 - paths are strings here
            raise ConfigError(where, f"path {STATE_FOLDER} is reserved", "choose another targetPath")
        self._targets.claim(where, path, volume.root)

    def plan(self) -> list[ObjectFile]:
        """Look up everything that the items want; the files in the order of the items.

        Raises:
            DownloadError: something does not exist, or two items write one file.
        """
        return _assign_partial_paths([file for files in self._parallel(self._lookups) for file in files])

    def prepare(self) -> None:
        """Run the preparations of the tasks.

        Raises:
            DownloadError: something does not exist, or two items write one file.
        """
        self._parallel(self.preparations)

    def _parallel(self, actions: Sequence[Callable[[], _T]]) -> list[_T]:
        """What all actions return; the first failure ends the others."""
        return run_parallel(actions, _PARALLEL_LOOKUPS, "lookup", self.stop)

    def _call(
        self, where: str, name: str, action: Callable[[], Any], retry_after: Callable[[], float] = float
    ) -> Any:
        try:
            return retry(action, self.config.limits, self.stop, retry_after)
        except Exception as error:  # noqa: BLE001 - every failure becomes the error of its item
            raise self.to_download_error(where, name, error) from None

    def retry(self, action: Callable[[], _T]) -> _T:
        """Run an action, again while its failure is transient.

        Raises:
            Exception: its last failure.
        """
        return retry(action, self.config.limits, self.stop)

    def to_download_error(self, where: str, name: str, error: BaseException) -> errors.DownloadError:
        """Translate a failure; one that the egress proxy caused names the blocked or unreachable host."""
        blocked = self.proxy.last_blocked()
        if blocked and not isinstance(error, errors.DownloadError):
            return ConfigError(
                where, f"{name}: connection blocked: {blocked}", "use an endpoint that workloads may reach"
            )
        found = errors.to_download_error(where, name, error)
        unreachable = self.proxy.last_unreachable()
        if (
            unreachable
            and isinstance(found, errors.NetworkError)
            and not isinstance(error, errors.DownloadError)
        ):
            return errors.NetworkError(
                where, f"{name}: download failed: {unreachable}", "check the endpoint and the network"
            )
        return found


def _file(
    where: str,
    store: ObjectStore,
    meta: Mapping[str, Any],
    volume: TargetVolume,
    path: str,
    *,
    key: str,
    sha256: str | None,
) -> ObjectFile:
    modified = "" if meta["e_tag"] else str(meta["last_modified"])
    return ObjectFile(where, store, key, meta["size"], meta["e_tag"], modified, volume, path, sha256)


def _assign_partial_paths(files: list[ObjectFile]) -> list[ObjectFile]:
    """Move partial files to the state folder where ``<name>.part`` is another file, or too long a name."""
    part_names = {file.path for file in files if file.path.endswith(".part")}

    def assigned(file: ObjectFile) -> ObjectFile:
        name = file.path.rpartition("/")[2]
        if file.partial_path not in part_names and (
            len(name) <= _SHORT_NAME or len(os.fsencode(name)) <= _MAX_NAME_BYTES
        ):
            return file
        folder = os.path.join(file.volume.root, STATE_FOLDER)  # noqa: PTH118 - paths are strings here
        return replace(file, aside_path=f"{folder}/partial-{fingerprint(file.path)}")

    return [assigned(file) for file in files]
