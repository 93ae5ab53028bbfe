"""Reading what rocm-smi writes."""

from __future__ import annotations

import pytest

from kaiwo.plugin.vendors import GpuReading
from kaiwo_gpu_amd.rocm_smi import parse

OUTPUT = """WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status
{"card10": {"GPU use (%)": "97", "VRAM Total Memory (B)": "206141652992",
 "VRAM Total Used Memory (B)": "1024", "Card Series": "AMD Instinct MI300X", "GFX Version": "gfx942"},
 "card2": {"GPU use (%)": "N/A", "VRAM Total Memory (B)": "1", "VRAM Total Used Memory (B)": "1",
 "Card series": "Instinct MI250X"}, "system": {"Driver version": "6.10"}}
"""


def test_gpus_come_in_the_order_of_their_numbers() -> None:
    """Whatever the case of the keys, and with a warning before them; what is not known is None."""
    assert parse(OUTPUT) == (
        GpuReading("2", "Instinct MI250X", None, 1, 1),
        GpuReading("10", "AMD Instinct MI300X", 97.0, 1024, 206141652992),
    )


@pytest.mark.parametrize("text", ["", "ERROR: no GPU", "[1]", "{", '{"a":' * 100_000])
def test_anything_else_is_an_error(text: str) -> None:
    """So that the user is told what it wrote."""
    with pytest.raises(ValueError, match=r"JSON|Input|Expected|recursion"):
        parse(text)
