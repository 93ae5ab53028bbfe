"""The nearest number of GPUs that would run, taken from the message that rejects the requested one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

_DOES_NOT_FIT: Final = re.compile(r"^asked for (\d+) .*; nearest that fits: (\d+)(?: or \d+)?$")
_INDIVISIBLE: Final = re.compile(r"^spec\.gpus: (\d+) GPUs cannot .* nearest that can: (\d+)")
"""Messages of `kaiwo.workload.gpus.allocation` whose answer is one number. Others name pods, too."""

_FIELDS: Final = ("gpus", "gpusPerReplica")


def nearest_gpus(spec: Object, message: str) -> str:
    """The field and its nearest value, such as ``gpus=8``; empty where no single field decides.

    Args:
        spec: the workload's.
        message: why its GPUs cannot be had.
    """
    found = _DOES_NOT_FIT.search(message) or _INDIVISIBLE.search(message)
    written = [field for field in _FIELDS if spec.get(field)]
    # The GPUs of an embedded template are not those of the field.
    if found is None or len(written) != 1 or spec[written[0]] != int(found[1]):
        return ""
    return f"{written[0]}={found[2]}"
