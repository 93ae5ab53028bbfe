"""Names as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.client import AsyncClient
from kaiwo.client.errors import InvalidArgument
from kaiwo.client.kinds import KAIWO_JOB, WORKLOADS
from kaiwo.client.lookup import parse_name

if TYPE_CHECKING:
    from pathlib import Path

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]
"""


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


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"user": 3}, "user: expected a text, got 3"),
        ({"queue": ["a"]}, "queue: expected a text"),
        ({"namespace": 1}, "namespace: expected a text"),
        ({"kind": 1}, "kind: expected a text"),
        ({"statuses": 1}, "statuses: expected a collection of PENDING"),
        ({"statuses": ["DONE"]}, "statuses: expected a collection of PENDING"),
    ],
)
async def test_filters_of_a_wrong_type_have_the_error_of_other_wrong_values(
    tmp_path: Path, filters: dict[str, Any], message: str
) -> None:
    """A script catches one error, whatever is wrong with an argument."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    async with AsyncClient(kubeconfig=kubeconfig) as client:
        with pytest.raises(InvalidArgument, match=message):
            await client.list(**filters)
