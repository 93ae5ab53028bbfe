"""One run, from what the items ask for to files on the volumes."""

from __future__ import annotations

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors, globs, listing, secrets
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError, NotAvailableError
from kaiwo_storage_s3_gcs_azure_git_hf.download.headers import Headers
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint
from kaiwo_storage_s3_gcs_azure_git_hf.download.model import File, Store, Task
from kaiwo_storage_s3_gcs_azure_git_hf.download.paths import OWN_FOLDER, Targets, Volume
from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer import retried
from kaiwo_storage_s3_gcs_azure_git_hf.items import ValueReference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.api.download import DownloadConfig
    from kaiwo_storage_s3_gcs_azure_git_hf.download.gate import Gate
    from kaiwo_storage_s3_gcs_azure_git_hf.download.headers import Address

_T = TypeVar("_T")

_LOOKUPS = 16
_LONGEST = 255 - len(".part")
"""Bytes of a name to which a file system of Linux lets something be added."""

_SHORT = _LONGEST // 4
"""Characters that never need more bytes than that."""

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
"""Names as DNS has them, or addresses."""

_PLACE = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
"""A path of a URL (RFC 3986 3.3)."""

_SLOWEST_PART = timedelta(minutes=30)
_SLOWEST_FILE = timedelta(days=1)
"""For servers that do not serve parts. A silent connection is given up long before."""


class Session:
    """What downloader functions are given; it is a :class:`kaiwo.api.download.Downloads`.

    Attributes:
        config: the document.
        gate: the way out.
        tasks: transfers of their own.
        stop: set once something failed for good: nothing new is begun.
    """

    def __init__(self, config: DownloadConfig, gate: Gate, roots: Mapping[str, str]) -> None:
        self.config = config
        self.gate = gate
        self.tasks: list[Task] = []
        self._roots = roots
        self._volumes: dict[str, Volume] = {}
        self._targets = Targets()
        self._lookups: list[Callable[[], list[File]]] = []
        self._asking: list[Headers] = []
        self.stop = threading.Event()

    def volume(self, name: str) -> Volume:
        """The volume ``data`` or ``hf``.

        Raises:
            ConfigError: there is none, or nothing is mounted there.
        """
        if name not in self._volumes:
            mount = self._roots.get(name)
            if not mount:
                raise ConfigError("", f"there is no {name} volume", "give it a storageSize")
            self._volumes[name] = Volume(mount, f"the {name} volume")
        return self._volumes[name]

    @property
    def volumes(self) -> list[Volume]:
        """The volumes in use."""
        return list(self._volumes.values())

    def secret(self, where: str, reference: Mapping[str, Any] | ValueReference) -> str:
        """The value of a reference to a Secret."""
        if not isinstance(reference, ValueReference):
            reference = ValueReference.parse(dict(reference))
        return secrets.read(where, reference)

    def headers(self, address: Address) -> Headers:
        """What asks a store for the headers of its objects; :meth:`close` ends its connections."""
        asking = Headers(self.gate, address, self.config.limits.stall_seconds)
        self._asking.append(asking)
        return asking

    def close(self) -> None:
        """End what was opened."""
        for asking in self._asking:
            asking.close()

    def client(self, where: str, url: str) -> dict[str, Any]:
        """How an object store client reaches `url`: through the gate, http only when it is written so.

        An address that is written as a number is checked here, once and for all, and reached directly.

        Raises:
            ConfigError: the address is never reached.
        """
        place = _endpoint(where, url)
        why = self.gate.written(url)
        if why:
            raise ConfigError(where, why, "use an endpoint that workloads may reach")
        stall = timedelta(seconds=self.config.limits.stall_seconds)
        options: dict[str, Any] = {
            "allow_http": place.scheme == "http",
            "proxy_url": self.gate.url,
            "connect_timeout": timedelta(seconds=15),
            "read_timeout": stall,
            "timeout": _SLOWEST_PART,
            "user_agent": "kaiwo-download",
        }
        if place.hostname and self.gate.direct(place.hostname):
            options["proxy_excludes"] = place.hostname
        return {"client_options": options, "retry_config": {"max_retries": 0, "retry_timeout": stall}}

    def object(self, where: str, store: Store, key: str, target: str, sha256: str | None = None) -> None:
        """Fetch one object to `target`, relative to the data volume."""
        volume = self.volume("data")
        path = volume.place(where, target)
        key = key.lstrip("/")  # as the client has it
        if path == volume.root or target.endswith("/"):
            raise ConfigError(where, "names no file to write", "give targetPath a file name")
        self._targets.claim(where, path, volume.root)

        def look() -> list[File]:
            import obstore

            patience = partial(store.headers.patience, key) if store.headers else float
            meta = self._asked(
                where, f"{store.name}/{key}", lambda: obstore.head(store.remote, key), patience
            )
            file = _file(where, store, meta, volume, path, key=key, sha256=sha256)
            if store.plain and store.headers and file.size > self.config.limits.part_size:
                file = replace(file, ranged=store.headers.ranged(key))
            return [file]

        self._lookups.append(look)

    def folder(self, where: str, store: Store, prefix: str, target: str, glob: str | None) -> None:
        """Fetch every object below `prefix` that matches, into `target`, relative to the data volume."""
        volume = self.volume("data")
        base = volume.place(where, target)
        prefix = globs.prefix_of(prefix)
        try:
            matches = globs.compiled(glob or globs.DEFAULT).fullmatch
        except ValueError as error:
            raise ConfigError(where, str(error), "correct the glob") from None
        name = f"{store.name}/{prefix}".rstrip("/")

        def look() -> list[File]:
            found = []
            listed = self._asked(where, name, lambda: listing.listed(where, store, prefix))
            for meta in listed.values():
                relative = meta["path"][len(prefix) + 1 if prefix else 0 :]
                if relative and matches(relative):
                    path = volume.place(where, f"{os.path.relpath(base, volume.root)}/{relative}")
                    found.append(_file(where, store, meta, volume, path, key=meta["path"], sha256=None))
            found = self._without_markers(found, listed)
            if not found:
                raise NotAvailableError(
                    where,
                    f"no object in {name} matches {glob or globs.DEFAULT!r}",
                    "check path and glob; a path matches whole folder names",
                )
            for file in found:
                self._targets.claim(where, file.path, volume.root)
            return found

        self._lookups.append(look)

    def http(
        self,
        where: str,
        url: str,
        target: str,
        *,
        sha256: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Fetch one http or https URL to `target`, relative to the data volume."""
        from obstore.store import HTTPStore

        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname or place.query:
            raise ConfigError(where, "the URL is not one of http or https without a query", "correct url")
        root = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
        client = self.client(where, root)
        client["client_options"]["timeout"] = _SLOWEST_FILE
        if headers:
            if not all(value.isascii() and value.isprintable() for value in headers.values()):
                raise ConfigError(
                    where, "a header's value is not one line of plain text", "correct the Secret"
                )
            client["client_options"]["default_headers"] = dict(headers)
        remote = HTTPStore(root, **client)
        more = dict(headers or {})
        ask = self.headers(lambda key: (f"{root}/{quote(key)}", more))
        store = Store(remote, root, plain=True, headers=ask)
        self.object(where, store, unquote(place.path.lstrip("/")), target, sha256 and sha256.lower())

    def claim_file(self, where: str, volume: Volume, path: str) -> None:
        """Note that a task writes `path`, before it does.

        Raises:
            ConfigError: another item writes it too, or it is the program's own.
        """
        if path.startswith(os.path.join(volume.root, OWN_FOLDER, "")):  # noqa: PTH118 - paths are strings here
            raise ConfigError(where, f"{OWN_FOLDER} is the download's own", "choose another targetPath")
        self._targets.claim(where, path, volume.root)

    def plan(self) -> list[File]:
        """Look up everything that was asked for; the files in the order of the items.

        Raises:
            DownloadError: something does not exist, or two items write one file.
        """
        with ThreadPoolExecutor(_LOOKUPS, "lookup") as pool:
            pending = [pool.submit(look) for look in self._lookups]
            try:
                return _apart([file for future in pending for file in future.result()])
            except BaseException:
                self.stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _asked(
        self, where: str, name: str, ask: Callable[[], Any], patience: Callable[[], float] = float
    ) -> Any:
        try:
            return retried(ask, self.config.limits, self.stop, patience)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes the item's one line
            raise self.explained(where, name, error) from None

    def retried(self, action: Callable[[], _T]) -> _T:
        """Run an action, again while its failure may pass.

        Raises:
            Exception: its last failure.
        """
        return retried(action, self.config.limits, self.stop)

    def explained(self, where: str, name: str, error: BaseException) -> errors.DownloadError:
        """A failure as the user reads it; a refusal of the gate shows as itself."""
        refused = self.gate.refused()
        if refused and not isinstance(error, errors.DownloadError):
            return ConfigError(
                where, f"{name} leads to {refused}", "use an endpoint that workloads may reach"
            )
        found = errors.explained(where, name, error)
        unreached = self.gate.unreached()
        if (
            unreached
            and isinstance(found, errors.NetworkError)
            and not isinstance(error, errors.DownloadError)
        ):
            return errors.NetworkError(
                where, f"{name} could not be read: {unreached}", "check the endpoint and the network"
            )
        return found

    def _without_markers(self, found: list[File], listed: Mapping[str, Any]) -> list[File]:
        """Files without those that stand for folders: empty, with others below or a '/' at the end."""
        empty = [file for file in found if not file.size]
        if not empty:
            return found
        keys = sorted(listed)
        markers = {file for file in empty if listing.has_below(keys, file.key)}
        alone = [file for file in empty if file not in markers]
        with ThreadPoolExecutor(_LOOKUPS, "lookup") as pool:
            markers.update(
                file for file, is_one in zip(alone, pool.map(self._marker, alone), strict=True) if is_one
            )
        return [file for file in found if file not in markers]

    def _marker(self, file: File) -> bool:
        """Whether an empty object is a folder's marker: its key ends in '/', so the plain key is absent."""
        import obstore

        def ask() -> bool:
            try:
                obstore.head(file.store.remote, file.key)
            except FileNotFoundError:
                return True
            return False

        return bool(self._asked(file.where, file.name, ask))


def _endpoint(where: str, url: str) -> SplitResult:
    """The parts of a URL that an object store client is given; it would crash with some texts.

    Raises:
        ConfigError: it is none.
    """
    try:
        place = urlsplit(url)
        right = (
            place.scheme in ("http", "https") and place.port != 0 and _HOST.fullmatch(place.hostname or "")
        )
    except ValueError:
        right = None
    if not right or place.query or place.fragment or not _PLACE.fullmatch(place.path):
        raise ConfigError(where, "the endpoint is no http or https URL of a server", "correct the URL")
    return place


def _file(
    where: str,
    store: Store,
    meta: Mapping[str, Any],
    volume: Volume,
    path: str,
    *,
    key: str,
    sha256: str | None,
) -> File:
    modified = "" if meta["e_tag"] else str(meta["last_modified"])
    return File(where, store, key, meta["size"], meta["e_tag"], modified, volume, path, sha256)


def _apart(files: list[File]) -> list[File]:
    """Files that are kept aside until they are whole: ``<name>.part`` is another file, or too long a name."""
    named = {file.path for file in files if file.path.endswith(".part")}

    def placed(file: File) -> File:
        name = file.path.rpartition("/")[2]
        if file.partial not in named and (len(name) <= _SHORT or len(os.fsencode(name)) <= _LONGEST):
            return file
        folder = os.path.join(file.volume.root, OWN_FOLDER)  # noqa: PTH118 - paths are strings here
        return replace(file, aside=f"{folder}/unfinished-{fingerprint(file.path)}")

    return [placed(file) for file in files]
