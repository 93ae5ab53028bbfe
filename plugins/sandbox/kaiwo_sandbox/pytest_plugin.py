"""Pytest fixtures for tests that need an API server.

`control_plane` is one sandbox for the whole test session. It starts with the first test that uses it and is
deleted at the end, even if the session is killed. `platform` is another one with Kueue, KubeRay and
AppWrapper. `namespace` is a new namespace in the control plane for each test, `platform_namespace` one in the
platform. `run_download_pod` runs a download pod of the control plane on this machine. `real_node` is a
sandbox whose only node really runs containers, which needs root, and `node_namespace` a new namespace in it.

`KAIWO_SANDBOX_GENERATION=older` runs the older releases of the addons. `KAIWO_SANDBOX_REUSE=NAME[,NAME]` uses
running sandboxes instead and does not delete them, which makes local runs faster.

The module imports little, so that the collection of pure tests stays fast.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo_sandbox.downloads.local_node import RunPod
    from kaiwo_sandbox.sandbox import Sandbox

REUSE_VARIABLE = "KAIWO_SANDBOX_REUSE"
GENERATION_VARIABLE = "KAIWO_SANDBOX_GENERATION"
PLATFORM_ADDONS = ("appwrapper", "kuberay", "kueue")
_MAX_STEM_LENGTH = 40


def _generation() -> str:
    return os.environ.get(GENERATION_VARIABLE) or "newer"


def pytest_report_header() -> str:
    """Report the versions in the sandboxes of this session.

    Raises:
        pytest.UsageError: the configured generation is unknown.
    """
    from kaiwo_sandbox import generations
    from kaiwo_sandbox.builds.binary_sets import KUBERNETES
    from kaiwo_sandbox.errors import SandboxError

    try:
        generation = generations.generation(_generation())
    except SandboxError as error:
        raise pytest.UsageError(str(error)) from error
    addons = ", ".join(f"{addon} {version}" for addon, version in sorted(generation.versions.items()))
    reused = os.environ.get(REUSE_VARIABLE)
    suffix = f"; reuses {reused}" if reused else ""
    return f"sandbox: kubernetes {KUBERNETES.removeprefix('v')}, {addons} ({generation.name}){suffix}"


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with the default nodes and no addons, shared by all tests of the session."""
    reused = _reused()
    yield from _reuse(reused[0]) if reused else _start(request.config, f"pytest-{os.getpid()}")


@pytest.fixture(scope="session")
def platform(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with the default nodes and all addons, shared by all tests of the session.

    `KAIWO_SANDBOX_GENERATION` selects the generation of the addons. A sandbox is reused only if it has all
    addons of that generation.
    """
    reusable = [
        each
        for each in _reused()
        if set(PLATFORM_ADDONS) <= set(each.addons) and each.generation == _generation()
    ]
    name = f"pytest-{os.getpid()}-platform"
    yield from _reuse(reusable[0]) if reusable else _start(request.config, name, addons=PLATFORM_ADDONS)


def _reused() -> list[Sandbox]:
    """The running sandboxes that `KAIWO_SANDBOX_REUSE` names.

    Raises:
        SandboxError: one of them is not running.
    """
    from kaiwo_sandbox.errors import SandboxError
    from kaiwo_sandbox.sandbox import Sandbox

    found = []
    for name in filter(None, os.environ.get(REUSE_VARIABLE, "").split(",")):
        sandbox = Sandbox.find(name)
        if sandbox is None:
            raise SandboxError(
                f'{REUSE_VARIABLE}: sandbox "{name}" is not running',
                hint=f"start it with kaiwo sandbox up --name {name}, or unset {REUSE_VARIABLE}",
            )
        found.append(sandbox)
    return found


def _reuse(sandbox: Sandbox) -> Iterator[Sandbox]:
    """Yield a running sandbox and do not delete it."""
    yield sandbox
    sandbox.api.close()


def _start(config: pytest.Config, name: str, **how: Any) -> Iterator[Sandbox]:
    """Start a sandbox, and delete it at the end of the session."""
    from kaiwo_sandbox.sandbox import Sandbox

    sandbox = Sandbox.up(name, generation=_generation(), owned=True, progress=_progress_writer(config), **how)
    try:
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture(scope="session")
def real_node(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with a real node, KubeRay and AppWrapper, shared by all tests of the session.

    It has no simulated nodes. One machine can run one real node at a time.
    """
    reusable = [each for each in _reused() if each.has_real_node]
    name = f"pytest-{os.getpid()}-node"
    how: dict[str, Any] = {"nodes": "none", "real_node": True, "addons": ("appwrapper", "kuberay")}
    yield from _reuse(reusable[0]) if reusable else _start(request.config, name, **how)


@pytest.fixture
def namespace(control_plane: Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new namespace in the control plane, which is deleted after the test."""
    yield from _namespace_in(control_plane, request)


@pytest.fixture
def platform_namespace(platform: Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new namespace in the platform, which is deleted after the test."""
    yield from _namespace_in(platform, request)


@pytest.fixture
def node_namespace(real_node: Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new namespace in the sandbox with the real node, which is deleted after the test."""
    yield from _namespace_in(real_node, request)


@pytest.fixture
def run_download_pod(control_plane: Sandbox) -> RunPod:
    """A function that runs a live download pod of the control plane as a process and reports its status.

    Its arguments are the pod and an empty directory, which becomes `/` of the container. It returns the exit
    code and the output, or None if a volume cannot be mounted.
    """
    from functools import partial

    from kaiwo_sandbox.downloads.local_node import run_pod

    return partial(run_pod, control_plane.api)


def _namespace_in(sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:_MAX_STEM_LENGTH].strip("-")
    name = f"{stem or 'test'}-{secrets.token_hex(3)}"
    sandbox.create_namespace(name)
    yield name
    sandbox.delete_namespace(name)


def _progress_writer(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that writes past pytest's capture, so that a build does not look like a hang."""
    reporter = config.pluginmanager.getplugin("terminalreporter")

    def write(line: str) -> None:
        capture = config.pluginmanager.getplugin("capturemanager")
        uncaptured = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
        with uncaptured:
            if reporter is not None:
                reporter.write_line(line)

    return write
