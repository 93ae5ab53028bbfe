from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from kaiwo.plugin.vendors import GpuVendor


@pytest.fixture(scope="session")
def vendors() -> tuple[GpuVendor, ...]:
    """The first-party vendors."""
    return load(PluginSelection(names=("gpu_amd", "gpu_nvidia"))).vendors
