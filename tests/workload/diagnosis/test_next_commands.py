"""A next command can be run as it stands, names filled in."""

from __future__ import annotations

import importlib

import click
import pytest

from docs.generate.meanings import GROUPS
from kaiwo.cli.main import COMMANDS
from kaiwo.workload.diagnosis.next_commands import NEXT, next_command

CODES = sorted({*NEXT, *(code for group in GROUPS.values() for code in group), "SomethingOfAPlugin"})


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("created", [True, False])
@pytest.mark.parametrize("queue", ["blue", ""])
def test_the_next_command_is_one_that_exists(code: str, created: bool, queue: str) -> None:
    """With every option that it names, and nothing left to fill in but the file."""
    text = next_command(
        code, kind="KaiwoService", name="chat", namespace="team", queue=queue, created=created
    )
    program, name, *words = text.split()
    assert "{" not in text
    if program == "kubectl":
        return
    module, _, attribute = COMMANDS[name].load.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    shared = {"-n", "-o"}
    known = {option for param in command.params for option in param.opts} | shared
    assert {word for word in words if word.startswith("-")} <= known
    assert "service/chat" in text or name in ("submit", "queue", "nodes", "doctor", "plugins")
