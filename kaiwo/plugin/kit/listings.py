"""Listings of servers, as ``Downloads.listing`` reads them: WebDAV, and index pages of web servers.

A downloader lists the files below a folder that the user named, and adds each::

    for where, item in parse_items("webdav", WebDavItem, items):
        read = partial(downloads.listing, where, method="PROPFIND", headers={"Depth": "1"})
        for file in walk(item.url, lambda url, read=read: webdav_entries(url, read(url))):
            downloads.http(where, file.url, f"{item.target_path}/{file.path}")

What a server lists is not what the user wrote: entries of another origin, outside the folder, or with names
that could leave the volume are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["MAX_FOLDERS", "ListedEntry", "index_entries", "walk", "webdav_entries"]

MAX_FOLDERS = 10_000
"""Folders that `walk` lists; each takes a request."""

_DAV = "{DAV:}"


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """A file or folder in a listing.

    Attributes:
        url: its URL, without a query.
        path: its path below the listed folder, decoded, without ``..`` and without slashes at the ends.
        is_folder: whether it can be listed itself.
    """

    url: str
    path: str
    is_folder: bool


def index_entries(url: str, page: bytes) -> list[ListedEntry]:
    """The files and folders to which an index page of a web server links.

    Args:
        url: of the page, which ends with a slash.
        page: its HTML.
    """
    links = _Links()
    links.feed(page.decode("utf-8", "replace"))
    return list(_below(url, ((link, link.endswith("/")) for link in links.found)))


def webdav_entries(url: str, body: bytes) -> list[ListedEntry]:
    """The members of a WebDAV collection, from the response to a PROPFIND with depth 1 (RFC 4918 9.1).

    Args:
        url: of the collection.
        body: the response.

    Raises:
        ValueError: it is not such a response.
    """
    if b"<!DOCTYPE" in body[:1024] or b"<!ENTITY" in body:
        raise ValueError(f"{url}: the listing declares XML entities; expected a WebDAV multistatus")
    try:
        root = ET.fromstring(body)  # noqa: S314 - entities are refused above
    except ET.ParseError as error:
        raise ValueError(f"{url}: the listing is not XML ({error}); expected a WebDAV multistatus") from None
    if root.tag != f"{_DAV}multistatus":
        raise ValueError(f"{url}: the listing is not a WebDAV multistatus")
    found = (
        (item.findtext(f"{_DAV}href") or "", item.find(f".//{_DAV}collection") is not None)
        for item in root.iter(f"{_DAV}response")
    )
    return list(_below(url, found))


def walk(url: str, entries: Callable[[str], Iterable[ListedEntry]]) -> Iterator[ListedEntry]:
    """The files below a folder, at any depth, with their paths below it.

    Args:
        url: of the folder.
        entries: lists one folder.

    Raises:
        ValueError: there are more than `MAX_FOLDERS` folders.
    """
    waiting, seen = [(url, "")], {url}
    while waiting:
        folder, path = waiting.pop(0)
        for entry in entries(folder):
            whole = replace(entry, path=f"{path}{entry.path}")
            if not entry.is_folder:
                yield whole
            elif entry.url not in seen:
                seen.add(entry.url)
                waiting.append((entry.url, f"{whole.path}/"))
        if len(seen) > MAX_FOLDERS:
            raise ValueError(f"{url}: more than {MAX_FOLDERS} folders; name a folder further down")


def _below(url: str, links: Iterable[tuple[str, bool]]) -> Iterator[ListedEntry]:
    """The linked entries below a folder, each once."""
    base = url if url.endswith("/") else f"{url}/"
    folder, seen = urlsplit(base), set()
    for link, is_folder in links:
        try:
            place = urlsplit(urljoin(base, link.strip()))
        except ValueError:
            continue
        below = place.path.removeprefix(folder.path) if place.path.startswith(folder.path) else ""
        names = [unquote(name) for name in below.rstrip("/").split("/")]
        same = (place.scheme, place.netloc) == (folder.scheme, folder.netloc)
        if not same or place.query or place.fragment or not all(map(_is_name, names)) or place.path in seen:
            continue
        seen.add(place.path)
        where = place.path.rstrip("/") + ("/" if is_folder else "")
        yield ListedEntry(f"{folder.scheme}://{folder.netloc}{where}", "/".join(names), is_folder)


def _is_name(text: str) -> bool:
    return text not in ("", ".", "..") and not any(char in text for char in "/\\\0\r\n")


class _Links(HTMLParser):
    """The targets of the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the target of a link."""
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]
