"""Settings of plugins: from ``spec.plugins`` of KaiwoConfig to validated values, by name of the plugin.

The operator, the command line and the testing kit read them with the same function.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kaiwo.api.errors import Problem
from kaiwo.api.validation_errors import explain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from kaiwo.plugin.registry import Plugins
    from kaiwo.plugin.vendors import GpuVendor

PATH = ("spec", "plugins")


def read_settings(
    models: Mapping[str, type[BaseModel]], sections: Mapping[str, Any]
) -> tuple[dict[str, BaseModel], list[Problem]]:
    """The settings of every plugin, and what is wrong with the sections that cannot be used.

    A plugin without a section has its defaults. One whose section cannot be used has no settings, and so has
    one without a section whose model has fields without a default.

    Args:
        models: of the settings, by name of the plugin.
        sections: ``spec.plugins`` of KaiwoConfig.
    """
    settings: dict[str, BaseModel] = {}
    problems: list[Problem] = []
    for name, model in models.items():
        written = sections.get(name)
        try:
            settings[name] = model.model_validate(written if written is not None else {})
        except ValidationError as error:
            if written is not None:
                problems += explain(error, (*PATH, name))
        except Exception as error:  # noqa: BLE001 - a plugin's own validators may raise anything
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            path = ".".join((*PATH, name))
            problems.append(Problem(path, f"plugin {name} failed to check its settings: {reason}"))
    return settings, problems


def configured_vendors(plugins: Plugins, sections: Mapping[str, Any]) -> tuple[GpuVendor, ...]:
    """The GPU vendors with the settings of their plugins; a section that cannot be used counts as absent.

    Args:
        plugins: the loaded plugins.
        sections: ``spec.plugins`` of KaiwoConfig.
    """
    settings, _ = read_settings(plugins.settings_models(), sections)
    return tuple(vendor.with_settings(partial(settings.get, vendor.plugin)) for vendor in plugins.vendors)
