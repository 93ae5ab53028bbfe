"""The code of backends is imported at the start, where no time limit of a call counts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.resource import JOB
from kaiwo.host.backend_imports import import_backends
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.lazy import Lazy

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def backend(modules: Path, name: str, text: str) -> Backend:
    """A backend whose class is in a module with this text in front."""
    code = (
        "from kaiwo.plugin.backend_base import BackendBase\n"
        "class Code(BackendBase):\n"
        "    def allocate(self, *_): ...\n"
        "    def render(self, *_): ...\n"
        "    def observe(self, *_): ...\n"
    )
    (modules / f"{name}.py").write_text(f"{text}\n{code}")
    return Backend(name, "KaiwoJob", JOB, (), implementation=Lazy(f"{name}:Code"))


async def test_an_import_that_takes_long_is_done_before_the_first_workload(modules: Path) -> None:
    """A busy machine must not make workloads wait: afterwards the class is there at once."""
    slow = backend(modules, "slow_backend", "import time\ntime.sleep(0.5)")
    await import_backends([slow])
    began = time.thread_time()
    assert slow.load() is not None
    assert time.thread_time() - began < 0.1
    assert "slow_backend" in sys.modules


async def test_a_backend_that_does_not_load_does_not_keep_the_others_from_it(
    modules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The operator starts, and its log has the cause."""
    broken = backend(modules, "broken_backend", "raise RuntimeError('no such library')")
    sound = backend(modules, "sound_backend", "")
    await import_backends([broken, sound])
    assert "backend broken_backend does not load" in caplog.text
    assert "sound_backend" in sys.modules


async def test_an_import_that_hangs_does_not_keep_the_operator_from_starting(
    modules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The wait is bounded, and said."""
    (modules / "go").write_text("")
    waits = f"while pathlib.Path({str(modules / 'go')!r}).exists(): time.sleep(0.01)"
    hanging = backend(modules, "hanging_backend", f"import pathlib, time\n{waits}")
    try:
        await import_backends([hanging], longest=0.2)
        assert "not imported within 0.2 s" in caplog.text
    finally:
        (modules / "go").unlink()
