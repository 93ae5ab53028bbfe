"""What happens around a run that is followed, and around a shell in its pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click
import pytest

from kaiwo.cli import following, remote_terminal
from kaiwo.cli.failures import INTERRUPTED
from kaiwo.cli.options import GlobalOptions
from kaiwo.client import deletion, run_outcome, waiting
from kaiwo.client import exec as client_exec
from kaiwo.client.errors import WorkloadFailed

if TYPE_CHECKING:
    from collections.abc import Callable

WORKLOAD = {"kind": "KaiwoJob", "metadata": {"name": "shell-x", "namespace": "team", "uid": "u"}}


class Session:
    """A command in a pod."""

    closed = False

    async def close(self) -> None:
        """Note it."""
        self.closed = True


class Steps:
    """What was called, in order; a step can fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **failures: BaseException) -> None:
        self.names: list[str] = []
        self.session = Session()
        self._failures = failures
        monkeypatch.setattr(waiting, "wait", self._step("wait", [WORKLOAD]))
        monkeypatch.setattr(client_exec, "running_pods", self._step("pods", [{"metadata": {"name": "p"}}]))
        monkeypatch.setattr(client_exec, "start", self._step("start", self.session))
        monkeypatch.setattr(remote_terminal, "attach", self._step("attach", 7))
        monkeypatch.setattr(deletion, "delete", self._step("delete", "deleted"))

    def _step(self, name: str, result: object) -> Callable[..., Any]:
        async def call(*_: object, **__: object) -> object:
            self.names.append(name)
            if name in self._failures:
                raise self._failures[name]
            return result

        return call

    def _begin(self) -> None:
        if "begin" in self._failures:
            raise self._failures["begin"]

    def open(self) -> int:
        """Open the shell."""
        with click.Context(click.Command("run"), obj=GlobalOptions(verbosity=-1)):
            return following.open_shell(cast("Any", self), WORKLOAD, ["bash"], begin=self._begin)

    def run(self, use: Callable[[Any], Any]) -> Any:
        """As `Cluster.run`."""
        step = use(None)
        try:
            step.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("nothing waits here")


def test_the_workload_is_deleted_when_the_shell_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its GPUs would else be held until somebody notices; the exit code is the shell's."""
    steps = Steps(monkeypatch)
    assert steps.open() == 7
    assert steps.names == ["wait", "pods", "start", "attach", "delete"]
    assert steps.session.closed


@pytest.mark.parametrize("step", ["begin", "wait", "pods", "start", "attach"])
@pytest.mark.parametrize("error", [WorkloadFailed("it failed"), KeyboardInterrupt()])
def test_the_workload_is_deleted_whatever_fails(
    monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    """Also when somebody presses Ctrl-C while it waits in the queue."""
    steps = Steps(monkeypatch, **{step: error})
    with pytest.raises(type(error)):
        steps.open()
    assert steps.names[-1] == "delete"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("", "detached; job/shell-x goes on"),
        ("RUNNING", "detached; job/shell-x goes on"),
        ("COMPLETE", "interrupted; job/shell-x has ended (COMPLETE)"),
        ("FAILED", "interrupted; job/shell-x has ended (FAILED)"),
    ],
)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), BrokenPipeError()])
def test_an_interrupt_says_whether_the_workload_goes_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    word: str,
    said: str,
    error: BaseException,
) -> None:
    """While the last lines of its log come in, a workload may have ended; then nothing is left to end."""

    async def follow(_: object, workload: Any, *, on_change: Callable[[Any], None], **__: object) -> Any:
        if word:
            on_change({**workload, "status": {"status": word}})
        raise error

    monkeypatch.setattr(run_outcome, "follow", follow)
    steps = Steps(monkeypatch)
    with click.Context(click.Command("run"), obj=GlobalOptions()):
        assert following.follow(cast("Any", steps), WORKLOAD, rm=False, begin=lambda: None) == INTERRUPTED
    printed = capsys.readouterr().err
    assert said in printed
    assert ("end it with" in printed) == (word in ("", "RUNNING"))
    assert ("logs -f" in printed) == (word in ("", "RUNNING"))


def test_an_interrupt_before_anything_is_followed_detaches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It exists already, so the way back to it is said."""

    def begin() -> None:
        raise KeyboardInterrupt

    with click.Context(click.Command("run"), obj=GlobalOptions()):
        found = following.follow(cast("Any", Steps(monkeypatch)), WORKLOAD, rm=False, begin=begin)
    assert found == INTERRUPTED
    assert "detached; job/shell-x goes on" in capsys.readouterr().err
