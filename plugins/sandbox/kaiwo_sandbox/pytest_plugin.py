"""Fixtures for tests that need a real API server.

`control_plane` is one sandbox for the whole test session, started when the first test asks for it and taken
down at the end, also when the session is killed. `namespace` is a fresh namespace per test.

`KAIWO_SANDBOX_REUSE=NAME` uses a sandbox that is already up instead, and leaves it up: quick local runs.

Nothing heavy is imported here, so that collecting pure tests costs nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo_sandbox.sandbox import Sandbox

REUSE_VARIABLE = "KAIWO_SANDBOX_REUSE"
_LONGEST_STEM = 40


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with the default nodes and no addons, shared by the session's tests."""
    from kaiwo_sandbox.errors import SandboxError  # noqa: PLC0415 - collecting pure tests must cost nothing
    from kaiwo_sandbox.sandbox import Sandbox  # noqa: PLC0415 - likewise

    reused = os.environ.get(REUSE_VARIABLE)
    if reused:
        found = Sandbox.find(reused)
        if found is None:
            raise SandboxError(
                f"{REUSE_VARIABLE} names the sandbox {reused!r}, which is not up.",
                why="No program of it runs.",
                next_step=f"Run 'kaiwo sandbox up --name {reused}', or unset {REUSE_VARIABLE}.",
            )
        yield found
        found.api.close()
        return
    sandbox = Sandbox.up(f"pytest-{os.getpid()}", owned=True, say=_teller(request.config))
    try:
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture
def namespace(control_plane: Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a namespace made for this test, in which pods can be created; removed afterwards."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:_LONGEST_STEM].strip("-")
    name = f"{stem or 'test'}-{secrets.token_hex(3)}"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


def _teller(config: pytest.Config) -> Callable[[str], None]:
    """Writes past pytest's capture: a build of ten minutes must not look like a hang."""
    reporter = config.pluginmanager.getplugin("terminalreporter")

    def say(line: str) -> None:
        capture = config.pluginmanager.getplugin("capturemanager")
        hidden = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
        with hidden:
            if reporter is not None:
                reporter.write_line(line)

    return say
