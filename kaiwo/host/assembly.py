"""Assembles an operator, without the plugins whose controllers cannot be built."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kaiwo.host.operator import Operator
from kaiwo.host.plugin_controllers import ControllerNotBuilt
from kaiwo.plugin.loader import unload

if TYPE_CHECKING:
    from kaiwo.host.settings import Settings
    from kaiwo.plugin.registry import Plugins

_log = logging.getLogger(__name__)


def assemble(settings: Settings, plugins: Plugins) -> Operator:
    """Assemble an operator; nothing is sent yet.

    A plugin whose controller cannot be built counts as one that cannot be loaded. The operator is assembled
    once more without it: nothing of a controller that was built in part may run.

    Args:
        settings: process settings.
        plugins: loaded plugins.

    Raises:
        CredentialsError: there is no usable way to reach an API server.
        RequiredPluginError: such a plugin is required.
    """
    while True:
        try:
            return Operator(settings, plugins)
        except ControllerNotBuilt as error:
            _log.error("plugin %s is left out", error.plugin, exc_info=error.__cause__)
            plugins = unload(plugins, error.plugin, error.invalid, settings.selection)
