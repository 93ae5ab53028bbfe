"""Reading what nvidia-smi writes."""

from __future__ import annotations

import pytest

from kaiwo.plugin.vendors import GpuReading
from kaiwo_gpu_nvidia.nvidia_smi import parse


def test_a_line_is_a_gpu() -> None:
    """What is not supported is unknown."""
    output = "0, NVIDIA H100 80GB HBM3, 87, 40960, 81559\n1, NVIDIA H100 80GB HBM3, [N/A], 1, 81559\n"
    assert parse(output) == (
        GpuReading("0", "NVIDIA H100 80GB HBM3", 87.0, 40960 << 20, 81559 << 20),
        GpuReading("1", "NVIDIA H100 80GB HBM3", None, 1 << 20, 81559 << 20),
    )


def test_anything_else_is_an_error() -> None:
    """So that the user is told what it wrote."""
    with pytest.raises(ValueError, match="expected 5 values, got 'No devices were found'"):
        parse("No devices were found\n")
