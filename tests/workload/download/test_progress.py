"""How far a download is, in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.workload.download.progress import Progress, progress_of, size


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (64 * 1024**3, "64 GiB"), (1536 * 1024**2, "1.5 GiB"), (1024**4, "1 TiB")],
)
def test_sizes_are_written_as_people_do(count: int, text: str) -> None:
    """At most one decimal place, and none where it says nothing."""
    assert size(count) == text


@given(st.integers(0, 2**62), st.integers(1, 2**62))
def test_a_hundred_per_cent_only_when_all_is_there(done: int, total: int) -> None:
    """Rounding never claims the end."""
    share = Progress(done, total).text.split()[1]
    assert (share == "100") == (done >= total)


@given(st.binary(max_size=60))
def test_any_line_of_a_log_is_read(line: bytes) -> None:
    """Whatever a container writes, it is progress or it is nothing."""
    assert progress_of(line) is None


def test_a_line_of_the_program_is_progress() -> None:
    """As ``--progress=json`` writes it."""
    line = b'{"event": "progress", "bytesDone": 41, "bytesTotal": 100, "secondsLeft": null}'
    found = progress_of(line)
    assert found == Progress(41, 100)
    assert found.text == "Downloading 41 % of 100 B"
    assert progress_of(b'{"event": "done", "files": 1}') is None


@pytest.mark.parametrize("number", ["-1", "9223372036854775808", "1" + "0" * 400, "1" + "0" * 5000, "1e400"])
def test_a_number_of_bytes_that_no_store_has_is_no_progress(number: str) -> None:
    """Whoever may change a pod may have its container write anything; nothing is computed of it."""
    assert progress_of(b'{"event": "progress", "bytesDone": %b}' % number.encode()) is None
    assert progress_of(b'{"event": "progress", "bytesDone": 1, "bytesTotal": %b}' % number.encode()) is None
