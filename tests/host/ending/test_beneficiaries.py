"""A held job is reconciled when the workload that it is held for changes, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.host.ending.beneficiaries import Beneficiaries
from kaiwo.testing.builders import NOW
from kaiwo.workload.ending.record import Beneficiary, EndingRecord

if TYPE_CHECKING:
    from conftest import Server

URGENT = Beneficiary("KaiwoJob", "team", "urgent", "uid-of-urgent")


class Followed:
    """The jobs that are held, by a server's cache."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.requeued: list[str] = []
        self.beneficiaries = Beneficiaries(server.cache)
        self.beneficiaries.follow(lambda key: self.requeued.append(key.name))

    def hold(self, version: int = 10, whom: Beneficiary | None = URGENT, **status: Any) -> None:
        """Let job one be held."""
        record = EndingRecord(
            "d1", "Duration", "uid-of-one", "", NOW, beneficiary=whom, action="Requeue", requeued_at=NOW,
            requeues=1,
        )  # fmt: skip
        self.server.put("one", version, **{"status": "PENDING", "termination": record.document(), **status})

    @property
    def progress(self) -> Any:
        """Whether the one that it is held for waits."""
        return self.beneficiaries.progress("uid-of-one")


@pytest.fixture
def followed(server: Server) -> Followed:
    """One job is held for another one."""
    store = server.cache.store(KAIWO_JOB)
    assert store is not None
    store.replace([], "1")
    made = Followed(server)
    server.put("urgent", 2, status="PENDING")
    made.hold()
    return made


def test_a_change_of_the_other_one_is_seen_at_once(followed: Followed) -> None:
    """Without a timer; a change of anybody else is no concern."""
    assert followed.progress == "Waiting"
    followed.server.put("two", 9, status="RUNNING")
    assert followed.requeued == []
    followed.server.put("urgent", 11, status="RUNNING", childUID="c")
    assert followed.requeued == ["one"]
    assert followed.progress == "Served"


def test_one_that_is_deleted_does_not_wait(followed: Followed) -> None:
    """Nor does another one of its name."""
    store = followed.server.cache.store(KAIWO_JOB)
    assert store is not None
    store.observe("DELETED", store.decode(b'{"metadata": {"name": "urgent", "namespace": "team", '
                                          b'"uid": "uid-of-urgent", "resourceVersion": "20"}}'))  # fmt: skip
    assert followed.requeued == ["one"]
    assert followed.progress == "Served"


def test_before_everything_is_listed_nobody_knows(server: Server) -> None:
    """What is not in the cache yet is not gone."""
    unlisted = Followed(server)
    unlisted.hold()
    assert unlisted.progress is None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"childUID": "new"}, id="created again"),
        pytest.param({"termination": None}, id="without a record"),
        pytest.param({"termination": {"rule": "Duration"}}, id="with another record"),
    ],
)
def test_a_job_that_is_not_held_is_left_alone(followed: Followed, status: Any) -> None:
    """It has a child again, or its record says nothing of it."""
    followed.hold(12, **status)
    assert followed.progress is None
    followed.server.put("urgent", 13, status="RUNNING")
    assert followed.requeued == []


def test_a_record_of_a_kind_that_nobody_knows_holds_nobody(followed: Followed) -> None:
    """Status can be written by others, too."""
    followed.hold(12, Beneficiary("Pod", "team", "urgent", "uid-of-urgent"))
    assert followed.progress == "Served"
