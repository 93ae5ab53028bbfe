"""What became of an installed plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from kaiwo.plugin.checks import MissingTarget

State: TypeAlias = Literal["loaded", "disabled", "not-selected", "not-allowed", "broken"]


@dataclass(frozen=True, slots=True)
class PluginState:
    """One line of ``kaiwo plugins``.

    Attributes:
        name: the plugin's name.
        distribution: the distribution it comes from, empty for a name that nothing installed has.
        version: version of the distribution.
        state: what became of it.
        message: why it is not loaded, empty when it is.
        reason: the same as a CamelCase word, empty when it is loaded.
        module: dotted name of the plugin's module, empty for a name that nothing installed has.
        targets: what it declares as ``module:name`` and does not exist.
    """

    name: str
    distribution: str
    version: str
    state: State
    message: str = ""
    reason: str = ""
    module: str = ""
    targets: tuple[MissingTarget, ...] = ()
