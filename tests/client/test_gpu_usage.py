"""What a vendor's tool wrote becomes GPUs, or a reason that names who has to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaiwo.client.gpu_usage import GpuUsage, readings, requested
from kaiwo.plugin.vendors import GpuReading, GpuTool, GpuVendor

if TYPE_CHECKING:
    from collections.abc import Callable

VENDOR = GpuVendor("acme", ("acme.com/gpu",), lambda _: (), plugin="gpu_acme")


def read(parse: Callable[[str], object]) -> tuple[tuple[GpuUsage, ...], str, str]:
    """What is made of the output of the tool ``acme-smi``."""
    return readings(VENDOR, GpuTool(("acme-smi", "--json"), parse), "output")  # type: ignore[arg-type]  # a plugin's lie


def test_readings_of_the_tool_are_shown() -> None:
    """As the vendor's plugin read them."""
    gpus, missing, _ = read(lambda _: (GpuReading("0", "x1", 97.0),))
    assert (gpus[0].gpu, gpus[0].model, gpus[0].use_percent, missing) == ("0", "x1", 97.0, "")


def test_output_of_another_kind_is_the_tools_own_words() -> None:
    """The plugin says with ValueError that the tool wrote something else."""
    _, missing, _ = read(lambda output: (GpuReading(str(int(output))),))
    assert missing.startswith("acme-smi wrote something else: invalid literal")


@pytest.mark.parametrize(
    ("parse", "cause"),
    [
        (lambda _: {}["gpus"], "KeyError: 'gpus'"),
        (lambda _: [{}], "AttributeError"),
        (lambda _: 7, "TypeError"),
    ],
)
def test_a_plugin_that_fails_is_named_and_the_other_pods_are_read(
    parse: Callable[[str], object], cause: str
) -> None:
    """One pod of many ended the command, as a defect of Kaiwo."""
    gpus, missing, next_step = read(parse)
    assert gpus == ()
    assert missing.startswith(f"plugin gpu_acme failed to read what acme-smi wrote: {cause}")
    assert next_step == "report it to the authors of the plugin"


def test_gpus_of_a_sidecar_are_read_in_the_sidecar() -> None:
    """The tool runs in the container that holds the GPUs; other init containers have ended."""
    limits = {"limits": {"acme.com/gpu": "2"}}
    init = [
        {"name": "first", "resources": limits},
        {"name": "serve", "restartPolicy": "Always", "resources": limits},
    ]
    pod = {"metadata": {"name": "p"}, "spec": {"initContainers": init, "containers": [{"name": "main"}]}}
    assert requested(pod, [VENDOR]) == ("serve", VENDOR, 2)
