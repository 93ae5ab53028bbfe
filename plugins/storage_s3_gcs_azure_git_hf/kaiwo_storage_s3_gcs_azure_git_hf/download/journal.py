"""The journal of finished files and finished parts, by which a run resumes where the last one ended.

Lines are appended as events happen and are read back at the next start. Parts that were written during
another boot of the machine count only up to the last sync of their file, because the page cache is lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from pathlib import Path

import msgspec

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def fingerprint(*parts: object) -> str:
    """A short hash of what identifies content: its place, its ETag, its size, the part size."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


class Journal:
    """The journal of one volume."""

    def __init__(self, folder: Path) -> None:
        self._finished: dict[str, tuple[str, int]] = {}
        self._parts: dict[str, tuple[str, set[int]]] = {}
        self._lock = threading.Lock()
        path = folder / "journal"
        boot = _BOOT.read_text().strip() if _BOOT.exists() else ""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                "", f"another download is writing to {folder.parent}", "wait for it to finish"
            ) from None
        except OSError:  # a file system without locks
            pass
        self._read(path, boot)
        self._compact(boot)

    def finished(self, path: str, key: str) -> bool:
        """Whether a file was finished with this fingerprint and has not been modified since."""
        known = self._finished.get(path)
        if known is None or known[0] != key:
            return False
        with contextlib.suppress(OSError):
            return os.lstat(path).st_mtime_ns == known[1]
        return False

    def parts(self, path: str, key: str) -> set[int]:
        """Indexes of the finished parts of a partial file."""
        known = self._parts.get(path)
        return set(known[1]) if known and known[0] == key else set()

    def part(self, path: str, key: str, index: int) -> None:
        """Record a part that was written."""
        self._append(["d", path, key, index])

    def mark(self, path: str) -> None:
        """Record that a sync begins; it covers the parts recorded so far."""
        self._append(["m", path])

    def synced(self, path: str) -> None:
        """Record that every part recorded before the last mark is on the disk."""
        self._append(["s", path])

    def finish(self, path: str, key: str) -> None:
        """Record a file that has its final name."""
        self._append(["f", path, key, os.lstat(path).st_mtime_ns])

    def close(self) -> None:
        """Release the journal for another run."""
        os.close(self._file)

    def _append(self, record: list[object]) -> None:
        data = msgspec.json.encode(record) + b"\n"
        with self._lock:
            os.write(self._file, data)

    def _read(self, path: Path, boot: str) -> None:
        pending: dict[str, tuple[str, set[int]]] = {}
        marked: dict[str, tuple[str, set[int]]] = {}
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError, ValueError, TypeError, IndexError):
                kind, *rest = msgspec.json.decode(line)
                if kind == "d":
                    known = pending.get(rest[0])
                    if known is None or known[0] != rest[1]:
                        known = pending[rest[0]] = (rest[1], set())
                    known[1].add(int(rest[2]))
                elif kind == "m" and rest[0] in pending:
                    marked[rest[0]] = (pending[rest[0]][0], set(pending[rest[0]][1]))
                elif kind == "s" and rest[0] in marked:
                    self._parts[rest[0]] = marked.pop(rest[0])
                elif kind == "f":
                    self._finished[rest[0]] = (rest[1], int(rest[2]))
                    pending.pop(rest[0], None)
                    marked.pop(rest[0], None)
                    self._parts.pop(rest[0], None)
                elif kind == "b" and rest[0] != boot:
                    pending = {name: (key, set(done)) for name, (key, done) in self._parts.items()}
                    marked.clear()
        self._parts.update(pending)

    def _compact(self, boot: str) -> None:
        """Write back the entries that still count; a torn write costs no more than a new transfer."""
        records: list[list[object]] = [["f", path, *known] for path, known in self._finished.items()]
        for path, (key, done) in self._parts.items():
            records += [["d", path, key, index] for index in sorted(done)]
        records.append(["b", boot])
        os.ftruncate(self._file, 0)
        os.write(self._file, b"".join(msgspec.json.encode(record) + b"\n" for record in records))
