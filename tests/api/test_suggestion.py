"""Misspelt words are answered with the one that was probably meant."""

from __future__ import annotations

import pytest

from kaiwo.api.suggestion import did_you_mean, nearest

PLUGINS = ["batch_job", "gpu_amd", "gpu_nvidia"]


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("batchjob", PLUGINS, "batch_job"),
        ("GPU-AMD", PLUGINS, "gpu_amd"),
        ("kaiwo-gpu-nvidia", PLUGINS, "gpu_nvidia"),
        ("KaiwoJbo", ["KaiwoJob", "KaiwoService"], "KaiwoJob"),
        ("queue", ["user", "clusterQueue", "namespace"], "clusterQueue"),
        ("zzzzzz", PLUGINS, None),
        ("q", ["user", "clusterQueue", "namespace"], None),
        ("anything", [], None),
    ],
)
def test_the_nearest_known_word_is_found(word: str, known: list[str], expected: str | None) -> None:
    """Case, dashes and a missing part are no obstacle; a far-fetched suggestion is worse than none."""
    assert nearest(word, known) == expected


def test_the_phrase_quotes_the_word_and_is_empty_without_one() -> None:
    """Every message has the same phrase."""
    assert did_you_mean("gpu", ["gpus", "image"]) == 'did you mean "gpus"?'
    assert did_you_mean("zzzzzz", ["gpus", "image"]) == ""
