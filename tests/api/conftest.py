"""What the tests of the models share: the plugins whose fields are in the CRDs of the repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from kaiwo.plugin.registry import Plugins

FIELD_PLUGINS = (
    "batch_job",
    "deployment",
    "kueue",
    "node_pools",
    "ray_job",
    "ray_service",
    "storage_s3_gcs_azure_git_hf",
)
"""First-party plugins that add fields or settings to the host's kinds."""


@pytest.fixture(scope="session")
def crd_files() -> list[Path]:
    """The rendered definitions of the repository."""
    return sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml"))


@pytest.fixture(scope="session")
def first_party() -> Plugins:
    """The loaded plugins; a test that uses them fails where one is missing or broken."""
    plugins = load(PluginSelection(names=FIELD_PLUGINS))
    assert [plugin.name for plugin in plugins.loaded] == list(FIELD_PLUGINS), plugins.states
    return plugins
