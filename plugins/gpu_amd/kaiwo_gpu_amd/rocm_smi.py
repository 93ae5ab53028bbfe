"""What rocm-smi says of the GPUs of a container."""

from __future__ import annotations

from typing import Any

import msgspec

from kaiwo.plugin.vendors import GpuReading

ROCM_SMI = ("rocm-smi", "--showuse", "--showmeminfo", "vram", "--showproductname", "--json")

_NAMES = ("card series", "card model")
_CARD = "card"


def parse(text: str) -> tuple[GpuReading, ...]:
    """The GPUs, in the order of their numbers; releases of ROCm write the same keys in other cases.

    Raises:
        ValueError: it is not what rocm-smi writes.
    """
    # Warnings about the driver come before the JSON.
    try:
        cards = msgspec.json.decode(text[max(0, text.find("{")) :], type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    numbers = sorted(
        int(name.removeprefix(_CARD))
        for name, card in cards.items()
        if name.startswith(_CARD) and name.removeprefix(_CARD).isdigit() and isinstance(card, dict)
    )
    return tuple(_reading(number, cards[f"{_CARD}{number}"]) for number in numbers)


def _reading(number: int, card: dict[str, Any]) -> GpuReading:
    values = {key.lower(): str(value) for key, value in card.items()}
    use = _number(values.get("gpu use (%)"))
    used, total = (_number(values.get(f"vram total {word}memory (b)")) for word in ("used ", ""))
    return GpuReading(
        gpu=str(number),
        model=next((values[name] for name in _NAMES if values.get(name)), ""),
        use_percent=use,
        memory_used=None if used is None else int(used),
        memory_total=None if total is None else int(total),
    )


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
