"""``kaiwo plugins``, as a user or a script sees it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.cli import failures
from kaiwo.cli.main import kaiwo

if TYPE_CHECKING:
    from collections.abc import Callable

VENDOR = """
from kaiwo.plugin.vendors import GpuVendor

@hookimpl
def kaiwo_gpu_vendors():
    return [GpuVendor(name="acme", resource_keys=("acme.com/gpu",), recognise=lambda node: ())]
"""
DECLARED = """
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB
from kaiwo.plugin.backends import Backend

@hookimpl
def kaiwo_backends():
    field = Field("KaiwoJob", ("laterJob",), dict, "For later.")
    return [Backend(name="later", kind="KaiwoJob", child=JOB, fields=(field,))]
"""
RAISES = "\nraise RuntimeError('no driver here')\n"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run the command with this environment; exit code, standard output, standard error."""

    def call(*arguments: str, **environ: str) -> tuple[int, str, str]:
        for name in ("KAIWO_PLUGINS", "KAIWO_PLUGINS_DISABLED", "KAIWO_PLUGINS_REQUIRED"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        code = failures.run(kaiwo, ["plugins", *arguments], "kaiwo")
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_json_lists_every_plugin_with_state_and_declarations(
    install: Callable[..., str], called: Callable[..., Any]
) -> None:
    """A script finds out what is loaded, what is not and why."""
    install("acme", VENDOR)
    install("broken", RAISES)
    code, out, _ = called("-o", "json", KAIWO_PLUGINS="acme,broken")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["acme"] == {
        "name": "acme",
        "state": "loaded",
        "distribution": "kaiwo-acme",
        "version": "1.2.3",
        "message": "",
        "declares": {"gpuVendors": ["acme"], "resourceKeys": ["acme.com/gpu"]},
        "notYetBuilt": [],
    }
    assert (rows["broken"]["state"], rows["broken"]["message"]) == ("broken", "RuntimeError: no driver here")
    assert rows["ray_job"]["state"] == "not-selected"


def test_the_table_says_why_a_plugin_is_broken_and_what_is_not_yet_built(
    install: Callable[..., str], called: Callable[..., Any]
) -> None:
    """A person sees in one glance what works."""
    install("broken", RAISES)
    install("later", DECLARED)
    code, out, _ = called(KAIWO_PLUGINS="broken,later", KAIWO_PLUGINS_DISABLED="kueue")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert lines["NAME"].split() == ["NAME", "STATE", "VERSION", "DISTRIBUTION", "NOTE"]
    assert "RuntimeError: no driver here" in lines["broken"]
    assert "declared, not yet built: later" in lines["later"]
    assert "disabled" in lines["kueue"]


def test_a_required_plugin_that_is_broken_fails_after_the_list(
    install: Callable[..., str], called: Callable[..., Any]
) -> None:
    """What stops the operator is found with this command, so the command shows it all and says so."""
    install("broken", RAISES)
    code, out, err = called("-o", "json", KAIWO_PLUGINS="broken", KAIWO_PLUGINS_REQUIRED="broken")
    assert code == 1
    assert "no driver here" in out
    assert "required plugins are not loaded: broken is broken: RuntimeError: no driver here" in err


def test_names_only(called: Callable[..., Any]) -> None:
    """Names go one per line, for pipes."""
    _, out, _ = called("-o", "name")
    assert "ray_job" in out.split()
