"""Commands in pods, and what they may write."""

from __future__ import annotations

from itertools import repeat
from typing import Any, cast

import pytest

from kaiwo.client import exec as client_exec
from kaiwo.engine.errors import ConnectionBroken
from kaiwo.engine.exec_session import STDOUT

POD = {"metadata": {"name": "train-0", "namespace": "team"}, "spec": {"containers": [{"name": "main"}]}}


class Session:
    """A command that writes the same for ever."""

    exit_code = 0
    closed = False

    def __init__(self) -> None:
        self._pieces = repeat((STDOUT, b"x" * 1000))

    async def read(self) -> tuple[int, bytes]:
        """The next piece."""
        return next(self._pieces)

    async def close(self) -> None:
        """Note it."""
        self.closed = True


async def test_a_program_that_writes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image of a workload brings the program, so it may be any; its output is kept in memory."""
    session = Session()

    async def start(*_: object, **__: object) -> Session:
        return session

    monkeypatch.setattr(client_exec, "start", start)
    with pytest.raises(ConnectionBroken, match="more than 5000 bytes"):
        await client_exec.run_in(cast("Any", None), POD, ["rocm-smi"], most=5000)
    assert session.closed
