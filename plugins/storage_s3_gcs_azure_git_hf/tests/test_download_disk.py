from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download import disk, free_space

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = bytes(range(256)) * 1024


def test_a_plan_larger_than_the_volume_is_refused_before_the_first_byte(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5, with both sizes."""
    objects.content["a"] = BODY
    monkeypatch.setattr(free_space, "free_bytes", lambda _: 1000)
    download.assert_failed(download(download.one(objects.url)), 5, "1000 B", "256.0 KiB")
    assert objects.sent == 0


def test_a_volume_that_fills_up_is_reported_as_such(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5 when others take the room meanwhile."""
    objects.content["a"] = BODY

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwritev", full)
    download.assert_failed(download(download.one(objects.url)), 5, "files[0]", "no space left")


def test_what_is_reported_as_done_is_on_the_disk(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file has its name before the volume is synced, and is reported as done after that."""
    objects.content = {f"d/{number}": BODY for number in range(3)}
    seen: list[tuple[int, str]] = []
    real = disk.sync_filesystem

    def noted(folder: str) -> None:
        seen.append((len(download.files()), capsys.readouterr().err))
        real(folder)

    monkeypatch.setattr(disk, "sync_filesystem", noted)
    items = download.s3(objects.url, folders=[{"path": "d", "targetPath": "d"}])
    outcome = download(items)
    assert outcome.code == 0
    ((files, output),) = seen
    assert files == 3
    assert "done" not in output
    assert "done: 3 files" in outcome.err
    assert download(items).code == 0
    assert len(seen) == 1, "nothing was written the second time"


def test_a_volume_that_cannot_be_synced_is_no_success(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5, so that the Job tries again."""
    objects.content["a"] = BODY

    def broken(_: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(disk, "sync_filesystem", broken)
    outcome = download(download.one(objects.url))
    assert outcome.code == 5, outcome.err
    assert "sync failed: Input/output error; increase storageSize" in outcome.line


@pytest.fixture
def small(download: Any) -> Iterator[tuple[list[str], bool]]:
    """A volume with room for 1 MiB: what the program is run with, and whether it is a file system of its own.

    Who may not mount gets a limit on the size of files, which fails in the same place of the program.
    """
    download.volume.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(download.volume)]
    if shutil.which("mount") and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        yield [], True
        subprocess.run([shutil.which("umount") or "umount", "--lazy", str(download.volume)], check=True)
    else:
        yield ["sh", "-c", 'ulimit -f 1024; exec "$@"', "sh"], False


def test_room_is_held_for_what_is_under_way(
    download: Any, objects: Any, small: tuple[list[str], bool]
) -> None:
    """Others cannot take it while the content comes."""
    before, mounted = small
    if not mounted:
        pytest.skip("a limit on the size of files takes no room from others; this needs the right to mount")
    objects.content["a"] = BODY * 3
    refused: list[int | None] = []

    def fill(handler: Any) -> bool:
        if handler.command == "GET":
            with (download.volume / "others").open("ab", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError as error:
                    refused.append(error.errno)
        return False

    objects.faults["a"] = fill
    outcome = download.process(download.one(objects.url), before)
    assert outcome.code == 0, outcome.err
    assert download.files()["a.bin"] == BODY * 3
    assert set(refused) == {errno.ENOSPC}, "the others never met the end of the volume"


def test_a_volume_that_others_fill_meanwhile(
    download: Any, objects: Any, small: tuple[list[str], bool]
) -> None:
    """Exit 5 from a real file system without room; what found none has no file."""
    before, mounted = small
    objects.content = {"a": BODY, "b": BODY * (2 if mounted else 8)}
    download.limits["workers"] = 1

    def fill(handler: Any) -> bool:
        if handler.command == "GET" and mounted:
            with contextlib.suppress(OSError), (download.volume / "others").open("ab") as file:
                file.write(bytes(4096) * 256)
        return False

    objects.faults["a"] = fill
    files = [{"path": name, "targetPath": name} for name in ("a", "b")]
    outcome = download.process(download.s3(objects.url, files=files), before)
    assert not (download.volume / "b.part").exists(), "what did not fit takes the room of others"
    (download.volume / "others").unlink(missing_ok=True)
    (download.volume / "a").unlink(missing_ok=True)
    download.assert_failed(outcome, 5, "files[1]", "/bucket/b", "no space left", "increase storageSize")


def test_a_small_volume_is_reported_before_the_first_byte(
    download: Any, objects: Any, small: tuple[list[str], bool]
) -> None:
    """Exit 5; the free space of the real file system counts."""
    before, _ = small
    objects.content["a"] = BODY * 8
    download.assert_failed(download.process(download.one(objects.url), before), 5, "increase storageSize")
    assert objects.sent == 0


def test_a_volume_that_cannot_be_written_is_reported_and_no_crash(download: Any, objects: Any) -> None:
    """Exit 2 with the place and the user, as of a volume that belongs to somebody else."""
    objects.content["a"] = BODY
    download.volume.mkdir()
    (download.volume / ".kaiwo-download").write_text("in the way")
    outcome = download(download.one(objects.url))
    (download.volume / ".kaiwo-download").unlink()
    download.assert_failed(outcome, 2, ".kaiwo-download", "write failed", f"user {os.getuid()}")


def test_a_folder_in_the_place_of_a_file_is_named(download: Any, objects: Any) -> None:
    """An earlier download left it; what is in it stays."""
    (download.volume / "a").mkdir(parents=True)
    (download.volume / "a" / "kept").write_text("x")
    objects.content = {"a": b"1"}
    outcome = download(download.s3(objects.url, files=[{"path": "a", "targetPath": "a"}]))
    assert outcome.code == 2
    assert f"{download.volume}/a exists and is a folder; remove it, or change targetPath" in outcome.line
    assert download.files() == {"a/kept": b"x"}


def test_what_a_killed_run_left_goes_with_the_next(download: Any, objects: Any) -> None:
    """A clone under way is thrown away; it would take room for as long as the volume lives."""
    objects.content["a"] = BODY
    left = download.volume / ".kaiwo-download" / "git-killed"
    (left / "work").mkdir(parents=True)
    (left / "work" / "pack").write_bytes(BODY)
    assert download(download.one(objects.url)).code == 0
    assert not left.exists()
