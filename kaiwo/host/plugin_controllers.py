"""Builds the controllers that plugins bring along, each under a time limit and with the plugin's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.host.plugin_timeout import PluginHung, TimeLimit
from kaiwo.plugin.checks import InvalidPlugin
from kaiwo.plugin.targets import imported

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.controllers import ControllerHost, ExtraController
    from kaiwo.plugin.registry import Plugins

LONGEST: Final = 10.0
"""Seconds that a controller may take to be imported and built; the same as for loading a plugin."""


class ControllerNotBuilt(Exception):
    """A plugin's controller cannot be built, so the plugin is broken.

    Attributes:
        plugin: name of the plugin.
        invalid: message and reason of the state of the plugin.
    """

    def __init__(self, plugin: str, invalid: InvalidPlugin) -> None:
        super().__init__(f"plugin {plugin}: {invalid}")
        self.plugin = plugin
        self.invalid = invalid


def build_controllers(
    plugins: Plugins, host_of: Callable[[ExtraController], ControllerHost], longest: float = LONGEST
) -> None:
    """Have each loaded plugin add its controllers.

    Args:
        plugins: loaded ones.
        host_of: what a controller gets.
        longest: seconds for each controller. Only the main thread can be interrupted.

    Raises:
        ControllerNotBuilt: one raises, or does not return in time. What it has added until then stays in the
            manager, which is not to be used any more.
    """
    with TimeLimit(longest) as limit:
        for plugin in plugins.loaded:
            for extra in plugin.controllers:
                try:
                    limit.wrap(plugin.name, f"controller {extra.name}", _build)(extra, host_of(extra))
                except PluginHung as error:
                    raise ControllerNotBuilt(plugin.name, InvalidPlugin(str(error), "LoadTimeout")) from None
                except (Exception, SystemExit) as error:  # a plugin's code may raise anything
                    words = f"controller {extra.name} cannot be built: {type(error).__name__}: {error}"
                    invalid = InvalidPlugin(words, "LoadFailed")
                    raise ControllerNotBuilt(plugin.name, invalid) from error


def _build(extra: ExtraController, host: ControllerHost) -> None:
    imported(extra.build)(host)
