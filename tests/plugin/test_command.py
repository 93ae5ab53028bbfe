"""``kaiwo plugins``, as a user or a script sees it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
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
        for name in (
            "KAIWO_PLUGINS",
            "KAIWO_PLUGINS_DISABLED",
            "KAIWO_PLUGINS_REQUIRED",
            "KAIWO_PLUGINS_ALLOWED",
        ):
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
    module = rows["acme"]["module"]
    assert rows["acme"] == {
        "name": "acme",
        "state": "loaded",
        "reason": "",
        "message": "",
        "distribution": "kaiwo-acme",
        "version": "1.2.3",
        "module": module,
        "path": str(Path(sys.modules[module].__file__ or "")),
        "declares": {"gpuVendors": ["acme"], "resourceKeys": ["acme.com/gpu"]},
        "notYetBuilt": [],
        "missingTargets": [],
    }
    assert rows["broken"]["path"].endswith(f"{rows['broken']['module']}.py")
    assert [rows["broken"][key] for key in ("state", "reason", "message")] == [
        "broken",
        "LoadFailed",
        "RuntimeError: no driver here",
    ]
    assert [rows["ray_job"][key] for key in ("state", "reason")] == ["not-selected", "NotSelected"]


OTHER_AMD = VENDOR.replace('name="acme"', 'name="amd"')
NAMES_NOTHING = """
from kaiwo.plugin.commands import Command
from kaiwo.plugin.lifecycle import TransitionListener

@hookimpl
def kaiwo_commands():
    return [Command("acme", load="shlex:nothing", help="Does it."), Command("b", load="no:b", help="Does b.")]

@hookimpl
def kaiwo_transitions():
    return [TransitionListener(name="acme", notify="shlex:nobody")]
"""


def test_everything_that_a_plugin_names_and_does_not_exist_is_listed(
    install: Callable[..., str], called: Callable[..., Any]
) -> None:
    """An author mends all of it at once, not one run after the other."""
    install("acme", NAMES_NOTHING)
    _, out, _ = called("-o", "json", KAIWO_PLUGINS="acme")
    (row,) = [row for row in json.loads(out) if row["name"] == "acme"]
    assert (row["state"], row["reason"]) == ("broken", "MissingTarget")
    assert row["missingTargets"] == [
        {
            "declaration": "kaiwo_commands: Command 'acme'",
            "attribute": "load",
            "target": "shlex:nothing",
            "problem": "module shlex has no nothing",
        },
        {
            "declaration": "kaiwo_commands: Command 'b'",
            "attribute": "load",
            "target": "no:b",
            "problem": "there is no module no",
        },
        {
            "declaration": "kaiwo_transitions: TransitionListener 'acme'",
            "attribute": "notify",
            "target": "shlex:nobody",
            "problem": "module shlex has no nobody",
        },
    ]


@pytest.mark.parametrize(
    ("source", "environ", "reason", "message"),
    [
        ("# bare\nKAIWO_API = 9\n", {}, "ApiVersion", "plugin was written for API 9, this host has 1."),
        ("\n", {"KAIWO_PLUGINS_DISABLED": "acme"}, "Disabled", "disabled by configuration"),
        ("\n", {"KAIWO_PLUGINS_ALLOWED": "acme@x"}, "NotAllowed", "KAIWO_PLUGINS_ALLOWED has acme@x"),
        ("\n", {"KAIWO_PLUGINS": "acme@kaiwo-acme==9"}, "VersionDiffers", "configuration names acme@kaiwo"),
        ("@hookimpl\ndef kaiwo_commands(): return 1\n", {}, "InvalidDeclaration", "kaiwo_commands returned"),
        (OTHER_AMD, {"KAIWO_PLUGINS": "acme,gpu_amd"}, "Conflict", "GPU vendor amd is also declared by "),
    ],
)  # fmt: skip
def test_each_reason_for_not_loading_is_a_word_and_a_sentence(
    install: Callable[..., str],
    called: Callable[..., Any],
    source: str,
    environ: dict[str, str],
    reason: str,
    message: str,
) -> None:
    """A script tells the causes apart by the word, a person by the sentence."""
    install("acme", source)
    _, out, _ = called("-o", "json", **({"KAIWO_PLUGINS": "acme"} | environ))
    (row,) = [row for row in json.loads(out) if row["name"] == "acme"]
    assert row["reason"] == reason
    assert row["message"].startswith(message)


def test_the_wide_table_shows_which_file_is_imported(
    install: Callable[..., str], called: Callable[..., Any]
) -> None:
    """Of two installations the one in force is seen."""
    install("acme", VENDOR)
    _, out, _ = called("-o", "wide", KAIWO_PLUGINS="acme")
    head, first = out.splitlines()[:2]
    assert head.split() == ["NAME", "STATE", "VERSION", "DISTRIBUTION", "MODULE", "PATH", "NOTE"]
    assert first.split()[0] == "acme"
    assert Path(first.split()[5]).is_file()


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


def test_names_are_printed_one_per_line(called: Callable[..., Any]) -> None:
    """Names go one per line, for pipes."""
    _, out, _ = called("-o", "name")
    assert "ray_job" in out.split()
