"""What nvidia-smi says of the GPUs of a container."""

from __future__ import annotations

from kaiwo.plugin.vendors import GpuReading

_FIELDS = ("index", "name", "utilization.gpu", "memory.used", "memory.total")

NVIDIA_SMI = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")

_MIB = 1 << 20


def parse(text: str) -> tuple[GpuReading, ...]:
    """The GPUs; what one does not support, as a MIG slice its use, is unknown.

    Raises:
        ValueError: it is not what nvidia-smi writes.
    """
    return tuple(_reading(line) for line in text.splitlines() if line.strip())


def _reading(line: str) -> GpuReading:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(_FIELDS) or not cells[0].isdigit():
        raise ValueError(f"expected {len(_FIELDS)} values, got {line!r}")
    use, used, total = (_number(cell) for cell in cells[2:])
    return GpuReading(
        gpu=cells[0],
        model=cells[1],
        use_percent=use,
        memory_used=None if used is None else int(used) * _MIB,
        memory_total=None if total is None else int(total) * _MIB,
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
