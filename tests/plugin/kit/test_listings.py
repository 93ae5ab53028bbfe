"""Listings of servers: what is an entry below a folder, and what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.plugin.kit import listings
from kaiwo.plugin.kit.listings import ListedEntry, index_entries, walk, webdav_entries

BASE = "https://data.example/models/"


def page(*links: str) -> bytes:
    """An index page with these links."""
    return "".join(f'<a href="{link}">x</a>' for link in links).encode()


def multistatus(*members: tuple[str, bool]) -> bytes:
    """The response to a PROPFIND."""
    kind = {True: "<d:resourcetype><d:collection/></d:resourcetype>", False: "<d:resourcetype/>"}
    items = "".join(
        f"<d:response><d:href>{href}</d:href><d:propstat><d:prop>{kind[folder]}</d:prop></d:propstat></d:response>"
        for href, folder in members
    )
    return f'<?xml version="1.0"?><d:multistatus xmlns:d="DAV:">{items}</d:multistatus>'.encode()


def test_an_index_page_lists_files_and_folders() -> None:
    """Names are decoded; links for sorting and to the parent are no entries."""
    body = page("?C=N;O=D", "../", "/", "a%20b.bin", "sub/", "/models/c.bin", f"{BASE}d.bin", "a%20b.bin")
    assert index_entries(BASE, body) == [
        ListedEntry(f"{BASE}a%20b.bin", "a b.bin", is_folder=False),
        ListedEntry(f"{BASE}sub/", "sub", is_folder=True),
        ListedEntry(f"{BASE}c.bin", "c.bin", is_folder=False),
        ListedEntry(f"{BASE}d.bin", "d.bin", is_folder=False),
    ]


@pytest.mark.parametrize(
    "link",
    [
        "https://other.example/models/x",
        "http://data.example/models/x",
        "//169.254.169.254/models/x",
        "%2e%2e/x",
        "a/%2e%2e/%2e%2e/x",
        "a%2f..%2fx",
        "a%5c..%5cx",
        "a%00b",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "x#fragment",
        "x?token=1",
        "http://[broken/x",
    ],
)
def test_a_server_cannot_lead_elsewhere_by_its_listing(link: str) -> None:
    """Another origin, a place outside the folder, and names that leave the volume are left out."""
    assert index_entries(BASE, page(link, "good")) == [ListedEntry(f"{BASE}good", "good", is_folder=False)]


@given(st.binary(max_size=200), st.text(max_size=30))
def test_anything_can_be_an_index_page(body: bytes, link: str) -> None:
    """Entries always stay below the folder."""
    for entry in index_entries(BASE, body + page(link)):
        assert entry.url.startswith(BASE)
        assert not {"", ".", ".."} & set(entry.path.split("/"))


def test_a_webdav_collection_lists_its_members() -> None:
    """The collection itself is in the response and is no member."""
    body = multistatus(("/models/", True), ("/models/sub", True), ("/models/x%C3%BC.bin", False))
    assert webdav_entries(BASE, body) == [
        ListedEntry(f"{BASE}sub/", "sub", is_folder=True),
        ListedEntry(f"{BASE}x%C3%BC.bin", "xü.bin", is_folder=False),
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>", "is not XML"),
        (b"<html/>", "not a WebDAV multistatus"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><multistatus xmlns="DAV:"/>', "XML entities"),
    ],
)
def test_another_response_is_no_listing(body: bytes, words: str) -> None:
    """A login page, or an attack on the parser, ends the download with one line."""
    with pytest.raises(ValueError, match=words):
        webdav_entries(BASE, body)


def test_folders_are_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are below the first folder; a folder that contains itself ends nothing, too many end the run."""
    tree = {
        BASE: [("a", False), ("sub/", True)],
        f"{BASE}sub/": [("b", False), ("deep/", True)],
        f"{BASE}sub/deep/": [("c", False)],
    }

    def entries(url: str) -> list[ListedEntry]:
        found = [
            ListedEntry(f"{url}{name}", name.rstrip("/"), is_folder=folder) for name, folder in tree[url]
        ]
        return [*found, ListedEntry(url, "again", is_folder=True)]

    assert [file.path for file in walk(BASE, entries)] == ["a", "sub/b", "sub/deep/c"]
    monkeypatch.setattr(listings, "MAX_FOLDERS", 2)
    with pytest.raises(ValueError, match="more than 2 folders"):
        list(walk(BASE, entries))
