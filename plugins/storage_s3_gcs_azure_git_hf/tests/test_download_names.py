"""Keys of objects that file systems, or the client, see in another way than stores."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import TargetVolume

WHOLE = {"path": ".", "targetPath": "."}


def fetch(download: Any, objects: Any, content: dict[str, bytes]) -> Any:
    """A whole bucket with this content."""
    objects.content = content
    return download(download.s3(objects.url, folders=[WHOLE]))


@pytest.mark.parametrize("order", [1, -1])
def test_no_object_collides_with_the_partial_file_of_another(download: Any, objects: Any, order: int) -> None:
    """``a.part`` may be an object beside ``a``; each keeps its content, and a rerun finds both."""
    content = {"a": b"1" * 200_000, "a.part": b"2" * 70_000, "a.part.part": b"3"}
    objects.content = content
    files = [{"path": key, "targetPath": key} for key in list(content)[::order]]
    for _ in range(2):
        outcome = download(download.s3(objects.url, files=files))
        assert outcome.code == 0, outcome.err
        assert {key: (download.volume / key).read_bytes() for key in content} == content
    assert "0 B transferred" in outcome.line


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127])
def test_names_as_long_as_a_file_system_allows(download: Any, objects: Any, name: str) -> None:
    """The name of the unfinished file is no longer than what is allowed either."""
    outcome = fetch(download, objects, {f"d/{name}": b"x"})
    assert outcome.code == 0, outcome.err
    assert download.files() == {f"d/{name}": b"x"}


def test_a_longer_name_is_refused(download: Any, objects: Any) -> None:
    """Stores allow 1024 bytes between slashes, Linux 255."""
    download.assert_failed(fetch(download, objects, {"n" * 256: b"x"}), 2, "too long")


def test_empty_objects_with_others_below_are_folders(download: Any, objects: Any) -> None:
    """Hadoop's and Azure's tools mark folders so; empty objects with nothing below are files."""
    content = {"d": b"", "d/e": b"", "d/e/x": b"1", "f/": b"", "f/y": b"2", "g/": b"", "d-z": b"", "z": b""}
    outcome = fetch(download, objects, content)
    assert outcome.code == 0, outcome.err
    assert download.files() == {"d/e/x": b"1", "f/y": b"2", "d-z": b"", "z": b""}


def test_the_markers_of_hadoop_are_no_files(download: Any, objects: Any) -> None:
    """EMR and the connectors for S3 and GCS write them beside a folder, and at the end of empty ones."""
    content = {"d/x": b"1", "d_$folder$": b"", "e_$folder$": b"", "kept_$folder$": b"1"}
    outcome = fetch(download, objects, content)
    assert outcome.code == 0, outcome.err
    assert download.files() == {"d/x": b"1", "kept_$folder$": b"1"}


def test_an_object_and_the_marker_of_a_folder_of_its_name(download: Any, objects: Any) -> None:
    """The object is what counts: its key is the one that can be read."""
    outcome = fetch(download, objects, {"a": b"12345", "a/": b""})
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a": b"12345"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"d": b"1", "d/x": b"2"}, ("d/x", "both a file and a folder", "glob")),
        ({"a": b"1", "/a": b"22"}, ("'a'", "slashes", "rename")),
    ],
)
def test_keys_that_cannot_be_files_beside_each_other_are_named(
    download: Any, objects: Any, content: dict[str, bytes], words: tuple[str, ...]
) -> None:
    """Exit 2 before the first byte, instead of one object in place of two."""
    download.assert_failed(fetch(download, objects, content), 2, "folders[0]", *words)


@pytest.mark.parametrize("name", ["emoji😀.bin", "é-e\u0301", "a/.../b", "%2e%2e", "p+l us%20x#?&='\"\\"])
def test_a_name_is_taken_as_it_is(download: Any, objects: Any, name: str) -> None:
    """In a configuration of JSON, with its escapes, in requests and on the volume."""
    objects.content = {name: b"1"}
    outcome = download(download.s3(objects.url, files=[{"path": name, "targetPath": name}]))
    assert outcome.code == 0, outcome.err
    assert download.files() == {name: b"1"}


@pytest.mark.parametrize(("path", "target"), [("a/", "b"), ("a", "b/")])
def test_a_folder_is_not_taken_for_a_file(download: Any, objects: Any, path: str, target: str) -> None:
    """A slash at the end would be lost: another object, or a file where a folder was meant."""
    objects.content = {"a": b"1"}
    items = download.s3(objects.url, files=[{"path": path, "targetPath": target}])
    download.assert_failed(download(items), 2, "names a folder")


def test_a_slash_before_a_key_costs_no_check(download: Any, objects: Any) -> None:
    """The object is asked for its checksum under the key that it is read by."""
    objects.content = {"a": b"1" * 2**20}
    objects.checksums["a"] = {"x-amz-checksum-crc32": "AAAAAA=="}
    items = download.s3(objects.url, files=[{"path": "/a", "targetPath": "a.bin"}])
    download.assert_failed(download(items), 4, "x-amz-checksum-crc32")


def test_names_in_plans_and_messages_cannot_forge_a_line_or_turn_its_direction(
    download: Any, objects: Any
) -> None:
    """Whoever may write to the bucket chooses them; the file has the name of the object."""
    key = "a\u2028b\u202ec"
    outcome = fetch(download, objects, {f"{key}/x": b"1"})
    assert outcome.code == 0, outcome.err
    assert download.files() == {f"{key}/x": b"1"}
    plan = download(download.s3(objects.url, folders=[WHOLE]), "--dry-run")
    assert plan.code == 0, plan.err
    assert "/a\\u2028b\\u202ec/x -> " in plan.out
    assert all(line.isprintable() for line in plan.out.splitlines())
    missing = [{"path": "a\u202eb\x1b[2J", "targetPath": "t"}]
    outcome = download(download.s3(objects.url, files=missing))
    assert outcome.code in (2, 3), outcome.err
    assert "a\\u202eb" in outcome.line
    assert outcome.line.isprintable()


def test_names_that_differ_in_case_are_files_of_their_own(download: Any, objects: Any) -> None:
    """As on Linux file systems."""
    content = {"Model.bin": b"1", "model.bin": b"2", "d/x": b"3", "D/x": b"4"}
    outcome = fetch(download, objects, content)
    assert outcome.code == 0, outcome.err
    assert download.files() == content


def test_names_that_differ_in_case_are_refused_on_a_volume_that_ignores_it(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One would replace the other, and each run would fetch both again."""
    monkeypatch.setattr(TargetVolume, "ignores_case", lambda _: True)
    outcome = fetch(download, objects, {"a/Model.bin": b"1", "a/model.bin": b"2"})
    download.assert_failed(outcome, 2, "folders[0]", "a/Model.bin and a/model.bin", "ignores case")
    assert fetch(download, objects, {"a/x": b"1", "a/y": b"2"}).code == 0
