"""Functions of a declaration that are imported when they are first called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kaiwo.plugin.lazy import Lazy

ROOT = Path(__file__).parents[2]
MODULE = "lazily_imported_by_a_test"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported and is not."""
    (tmp_path / f"{MODULE}.py").write_text("def double(number):\n    return 2 * number\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return MODULE


def test_nothing_is_imported_before_the_first_call(module: str) -> None:
    """A command that renders nothing pays for no backend's libraries."""
    double = Lazy(f"{module}:double")
    assert module not in sys.modules
    assert double(21) == 42
    assert module in sys.modules


def test_a_wrong_name_is_reported_when_it_is_called(module: str) -> None:
    """The error names what is missing; whoever calls a plugin shows it as the plugin's."""
    with pytest.raises(AttributeError, match="triple"):
        Lazy(f"{module}:triple")(1)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        Lazy("no_such_module:double")(1)


PLUGIN = """
from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.backends import Backend, Field
from kaiwo.plugin.kit.kinds import JOB
from kaiwo.plugin.lazy import Lazy

if TYPE_CHECKING:
    from kaiwo_batch_job.backend import BatchJobBackend

class NoBackend:
    def __init__(self, block: str) -> None: ...

RIGHT: Lazy[BatchJobBackend] = Lazy("kaiwo_batch_job.backend:BatchJobBackend")
WRONG: Lazy[NoBackend] = Lazy("acme:NoBackend")
FIELD = Field("KaiwoJob", ("acme",), dict, "A block.")
Backend("right", "KaiwoJob", JOB, (FIELD,), implementation=RIGHT)
Backend("wrong", "KaiwoJob", JOB, (FIELD,), implementation=WRONG)
"""


@pytest.mark.slow
def test_a_type_checker_sees_what_a_lazily_loaded_class_must_be(tmp_path: Path) -> None:
    """A class that is no backend is found by the author's type checker, before anything is loaded."""
    (tmp_path / "acme.py").write_text(PLUGIN)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", "acme.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins' / 'batch_job'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = [line for line in done.stdout.splitlines() if "error:" in line]
    assert 'Argument "implementation" to "Backend" has incompatible type "Lazy[NoBackend]"' in line
