"""Lists that stores end too early: a download is complete, or it fails."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

CONTENT = {f"m/{index}": bytes([index]) for index in range(7)}
EXPECTED = {f"m/{index}": bytes([index]) for index in range(7)}
FOLDERS = [{"path": "m", "targetPath": "m"}]


def page(handler: Any, keys: list[str], token: str = "") -> bool:
    """Answer with a page of a list in the words of S3."""
    contents = "".join(
        f'<Contents><Key>{key}</Key><Size>1</Size><ETag>"{key}"</ETag>'
        "<LastModified>2026-11-21T12:00:00.000Z</LastModified></Contents>"
        for key in keys
    )
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
    handler.reply(200, f"<ListBucketResult>{contents}{more if token else ''}</ListBucketResult>".encode())
    return True


def query(handler: Any) -> dict[str, str]:
    """The query of a request."""
    return {name: values[0] for name, values in parse_qs(urlsplit(handler.path).query).items()}


@pytest.mark.parametrize("source", ["s3", "gcs"])
def test_a_list_that_is_cut_without_a_token_is_continued(
    download: Any, objects: Any, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that gives three objects and no continuation token: all seven are downloaded."""
    objects.content, objects.first, objects.goog = dict(CONTENT), 3, source == "gcs"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", objects.url)
    items = download.s3(objects.url, folders=FOLDERS)
    if source == "gcs":
        items = {"gcs": [{"buckets": items["s3"][0]["buckets"]}]}
    outcome = download(items)
    assert outcome.code == 0, outcome.err
    assert download.files() == EXPECTED


def test_a_page_that_comes_twice_hides_no_objects(download: Any, objects: Any) -> None:
    """A store that answers a continuation token with the first page, as the last one."""
    objects.content, keys = dict(CONTENT), sorted(CONTENT)

    def fault(handler: Any) -> bool:
        asked = query(handler)
        if after := asked.get("start-after"):
            return page(handler, [key for key in keys if key > after])
        return page(handler, keys[:3], "" if "continuation-token" in asked else "next")

    objects.faults[""] = fault
    objects.etags = {key: f'"{key}"' for key in keys}
    outcome = download(download.s3(objects.url, folders=FOLDERS))
    assert outcome.code == 0, outcome.err
    assert download.files() == EXPECTED


def test_a_list_without_an_end_fails(download: Any, objects: Any) -> None:
    """The same page and token for ever, and start-after is ignored: exit 3 with the reason."""
    objects.content = dict(CONTENT)
    objects.faults[""] = lambda handler: page(handler, sorted(CONTENT)[:3], "same")
    outcome = download(download.s3(objects.url, folders=FOLDERS))
    download.assert_failed(outcome, 3, "s3[0].buckets[0].folders[0]", "lists the same objects again")


@pytest.mark.parametrize("status", [400, 501])
def test_a_store_that_cannot_list_from_a_key_on_is_no_failure(
    download: Any, objects: Any, status: int
) -> None:
    """It refuses start-after; what it listed is downloaded, without a wait."""
    objects.content = dict(CONTENT)
    refused: list[str] = []

    def fault(handler: Any) -> bool:
        if "start-after" not in query(handler):
            return False
        refused.append(handler.path)
        handler.reply(status, b"<Error><Code>NotImplemented</Code></Error>")
        return True

    objects.faults[""] = fault
    download.limits["retrySeconds"] = 60
    outcome = download(download.s3(objects.url, folders=FOLDERS))
    assert outcome.code == 0, outcome.err
    assert download.files() == EXPECTED
    assert len(refused) == 1


@pytest.mark.parametrize(("count", "code"), [(1500, 3), (7, 0)])
def test_a_store_that_knows_only_the_first_version_of_lists(
    download: Any, objects: Any, count: int, code: int
) -> None:
    """It ignores start-after and gives no token: a list that ends with a full page is not taken for whole."""
    keys = [f"m/{index:04}" for index in range(count)]
    objects.content = dict.fromkeys(keys, b"x")
    objects.etags = {key: f'"{key}"' for key in keys}
    objects.faults[""] = lambda handler: page(handler, keys[:1000])
    outcome = download(download.s3(objects.url, folders=FOLDERS))
    if code:
        download.assert_failed(outcome, code, "s3[0].buckets[0].folders[0]", "cut after 1000 objects")
    else:
        assert outcome.code == 0, outcome.err
        assert len(download.files()) == count
