"""What every declaration with code has: the plugin that made it, and the model of that plugin's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration whose code can have settings.

    Attributes:
        settings: model of ``spec.plugins.<plugin name>`` in KaiwoConfig; None for code without settings.
            All declarations of a plugin that name a model name the same one.
        plugin: name of the plugin, which is the key of its settings everywhere. The loader fills it in.
    """

    settings: type[BaseModel] | None = field(default=None, kw_only=True)
    plugin: str = field(default="", kw_only=True, repr=False)
