"""Names as people write them."""

from __future__ import annotations

import pytest

from kaiwo.client.errors import InvalidArgument
from kaiwo.client.kinds import KAIWO_JOB, WORKLOADS
from kaiwo.client.lookup import parse_name


def test_a_name_may_have_its_kind_before_it() -> None:
    """Without one both kinds are meant."""
    assert parse_name("train") == (WORKLOADS, "train")
    assert (
        parse_name("job/train") == parse_name("kaiwojobs.kaiwo.silogen.ai/train") == ((KAIWO_JOB,), "train")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of a workload, got an empty string"),
        ("job/", "job/: expected a name after the slash"),
        ("pod/train", 'pod/train: unknown kind "pod"'),
    ],
)
def test_what_names_no_workload_is_refused(text: str, message: str) -> None:
    """An unset variable of a script is an empty string."""
    with pytest.raises(InvalidArgument, match=message):
        parse_name(text)
