"""The way of somebody who writes a plugin: from ``kaiwo plugin new`` to a cluster, and out of it again."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.cli.plugin_scaffold.names import KINDS
from kaiwo.testing.operator import OperatorProcess
from kaiwo_sandbox import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo_sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
OTHERS = tuple(kind for kind in KINDS if kind != "queue")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE_PATCH = "application/merge-patch+json"
FOREVER = {"kaiwo-sandbox/forever": "true"}



@EVERY_KIND
def test_its_tests_pass(outsider: Any, kind: str) -> None:
    """As it was written, before anything is installed."""
    began = time.monotonic()
    done = outsider.run_in(outsider.folder(kind), "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout
    outsider.seconds[kind] += time.monotonic() - began


@EVERY_KIND
def test_its_types_are_strictly_right(outsider: Any, kind: str) -> None:
    """By mypy with the settings in its pyproject.toml, against the types of the installed host."""
    cache = outsider.directory / "mypy"
    done = outsider.run_in(outsider.folder(kind), "python", "-m", "mypy", "--cache-dir", str(cache))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (outsider.folder(kind) / "pyproject.toml").read_text("utf-8").count("strict = true") == 1
