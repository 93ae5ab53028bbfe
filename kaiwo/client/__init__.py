"""What scripts, notebooks and the command line use: submit, wait, logs, exec, why, queue, report.

The names below are imported on first use, because the command line imports modules of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaiwo.client.blocking import Client
    from kaiwo.client.session import AsyncClient

__all__ = ["AsyncClient", "Client"]

_PLACES = {"AsyncClient": "kaiwo.client.session", "Client": "kaiwo.client.blocking"}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
