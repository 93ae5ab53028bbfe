"""Adds the plugin's two controllers to the operator.

One writes the status of AIMNamespaceConfigs, the other HTTPRoutes of KaiwoServices. A namespace is a key of
the first, a KaiwoService of the second, so that each event costs as much as one object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo_aim.config_controller import NamespaceConfigController
from kaiwo_aim.route_controller import RouteController

if TYPE_CHECKING:
    from kaiwo.plugin.controllers import ControllerHost


def build(host: ControllerHost) -> None:
    """Add the plugin's controllers to the host's manager."""
    routes = RouteController(host)
    configs = NamespaceConfigController(host, routes)
    host.manager.add(configs.controller)
    host.manager.add(routes.controller)
