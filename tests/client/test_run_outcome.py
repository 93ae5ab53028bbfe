"""What `kaiwo run` says of a folder that did not come into the pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaiwo.client.run_outcome import unpack_problem
from kaiwo.client.run_pods import UNPACKER

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object


def ended(**how: object) -> Object:
    """A pod whose unpacking init container has ended."""
    state = {"terminated": {"exitCode": 1, **how}}
    return {"status": {"initContainerStatuses": [{"name": UNPACKER, "state": state}]}}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("sh: tar: not found\n", "sh: tar: not found"),
        ("reading\ntar: no space left\n\n", "tar: no space left"),
        ("  \n", "the folder could not be unpacked"),
        (None, "the folder could not be unpacked"),
    ],
    ids=["one line", "several", "blanks", "none"],
)
def test_a_folder_that_is_not_unpacked_has_the_last_words_of_the_container(
    message: str | None, text: str
) -> None:
    """Whatever an image leaves behind, also nothing but blanks."""
    assert unpack_problem([ended(message=message)]) == text


def test_a_folder_that_was_unpacked_has_no_problem() -> None:
    """An exit code of 0."""
    assert unpack_problem([ended(exitCode=0, message="done")]) == ""
