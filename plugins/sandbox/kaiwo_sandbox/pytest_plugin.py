"""Fixtures for tests that need a real API server.

`control_plane` is one sandbox for the whole test session, started when the first test asks for it and taken
down at the end, also when the session is killed. `platform` is another, with Kueue, KubeRay and AppWrapper.
`namespace` is a fresh namespace in the control plane per test, `platform_namespace` one in the platform.

`KAIWO_SANDBOX_GENERATION=older` runs the older releases of the three. `KAIWO_SANDBOX_REUSE=NAME[,NAME]` uses
sandboxes that are already up instead, and leaves them up: quick local runs.

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
GENERATION_VARIABLE = "KAIWO_SANDBOX_GENERATION"
PLATFORM_ADDONS = ("appwrapper", "kuberay", "kueue")
_LONGEST_STEM = 40


def _generation() -> str:
    return os.environ.get(GENERATION_VARIABLE) or "newer"


def pytest_report_header() -> str:
    """The versions that sandboxes of this session run.

    Raises:
        pytest.UsageError: the generation that is asked for does not exist.
    """
    from kaiwo_sandbox import catalogue
    from kaiwo_sandbox.errors import SandboxError

    try:
        chosen = catalogue.generation(_generation())
    except SandboxError as error:
        raise pytest.UsageError(str(error)) from error
    addons = ", ".join(f"{addon} {version}" for addon, version in sorted(chosen.versions.items()))
    reused = os.environ.get(REUSE_VARIABLE)
    where = f"; reuses {reused}" if reused else ""
    return f"sandbox: kubernetes {catalogue.KUBERNETES.removeprefix('v')}, {addons} ({chosen.name}){where}"


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with the default nodes and no addons, shared by the session's tests."""
    reused = _reused()
    yield from _borrow(reused[0]) if reused else _own(request.config, f"pytest-{os.getpid()}")


@pytest.fixture(scope="session")
def platform(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with the default nodes, Kueue, KubeRay and AppWrapper, shared by the session's tests.

    Their generation is the one that `KAIWO_SANDBOX_GENERATION` names. Of the sandboxes to reuse, one that
    fits is taken.
    """
    fitting = [
        each
        for each in _reused()
        if set(PLATFORM_ADDONS) <= set(each.addons) and each.generation == _generation()
    ]
    name = f"pytest-{os.getpid()}-platform"
    yield from _borrow(fitting[0]) if fitting else _own(request.config, name, addons=PLATFORM_ADDONS)


def _reused() -> list[Sandbox]:
    """The sandboxes that the environment names.

    Raises:
        SandboxError: one of them is not up.
    """
    from kaiwo_sandbox.errors import SandboxError
    from kaiwo_sandbox.sandbox import Sandbox

    found = []
    for name in filter(None, os.environ.get(REUSE_VARIABLE, "").split(",")):
        sandbox = Sandbox.find(name)
        if sandbox is None:
            raise SandboxError(
                f"{REUSE_VARIABLE} names the sandbox {name!r}, which is not up.",
                why="No program of it runs.",
                next_step=f"Run 'kaiwo sandbox up --name {name}', or unset {REUSE_VARIABLE}.",
            )
        found.append(sandbox)
    return found


def _borrow(sandbox: Sandbox) -> Iterator[Sandbox]:
    """A sandbox that is not ours."""
    yield sandbox
    sandbox.api.close()


def _own(config: pytest.Config, name: str, *, addons: tuple[str, ...] = ()) -> Iterator[Sandbox]:
    """A sandbox that ends with the session."""
    from kaiwo_sandbox.sandbox import Sandbox

    sandbox = Sandbox.up(name, addons=addons, generation=_generation(), owned=True, say=_teller(config))
    try:
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture
def namespace(control_plane: Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a namespace made for this test, in which pods can be created; removed afterwards."""
    yield from _namespace_in(control_plane, request)


@pytest.fixture
def platform_namespace(platform: Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    """The same in the platform."""
    yield from _namespace_in(platform, request)


def _namespace_in(sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:_LONGEST_STEM].strip("-")
    name = f"{stem or 'test'}-{secrets.token_hex(3)}"
    sandbox.create_namespace(name)
    yield name
    sandbox.delete_namespace(name)


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
