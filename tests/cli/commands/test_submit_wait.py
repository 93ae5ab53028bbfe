"""``kaiwo submit --wait`` that is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click
import pytest

from kaiwo.cli.commands.submit import _Sent, _wait
from kaiwo.cli.failures import INTERRUPTED, Failure
from kaiwo.cli.input_files.workload_file import WorkloadFile
from kaiwo.cli.options import GlobalOptions
from kaiwo.client import waiting
from kaiwo.engine.yaml_reader import Document
from kaiwo.testing import job

if TYPE_CHECKING:
    from collections.abc import Callable


class Cluster:
    """Runs what waits for nothing."""

    def run(self, use: Callable[[Any], Any]) -> Any:
        """As `kaiwo.cli.kit.Cluster.run`."""
        use(None).send(None)


@pytest.mark.parametrize(
    ("ended", "said", "command"),
    [
        ((), "job/a, job/b go on in the cluster", "kaiwo delete job/a job/b -n team to end"),
        (("a",), "interrupted; job/b goes on in the cluster", "kaiwo delete job/b -n team to end"),
    ],
)
def test_an_interrupt_names_what_goes_on(
    monkeypatch: pytest.MonkeyPatch, ended: tuple[str, ...], said: str, command: str
) -> None:
    """What has ended in the meantime needs nobody to end it."""

    async def wait(_: object, objects: list[Any], *, on_change: Callable[[Any], None], **__: object) -> None:
        for obj in objects:
            word = "COMPLETE" if obj["metadata"]["name"] in ended else "RUNNING"
            on_change({**obj, "status": {"status": word}})
        raise KeyboardInterrupt

    monkeypatch.setattr(waiting, "wait", wait)
    objects = [job(name=name, namespace="team") for name in "ab"]
    sent = [_Sent(WorkloadFile("", Document(obj), obj), obj, "created") for obj in objects]
    with click.Context(click.Command("submit"), obj=GlobalOptions()), pytest.raises(Failure) as error:
        _wait(cast("Any", Cluster()), sent, None)
    assert said in error.value.message
    assert command in error.value.next_step
    assert error.value.exit_code == INTERRUPTED
