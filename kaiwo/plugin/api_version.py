"""Whether a plugin was written for a version of the plugin API that this host has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaiwo.plugin.checks import InvalidPlugin
from kaiwo.plugin.hookspecs import API_MAJOR, API_MINOR

if TYPE_CHECKING:
    from types import ModuleType

API_VERSION = "ApiVersion"
"""Reason of plugins that this host cannot load because of their version of the API."""

_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")


def check_api_version(module: ModuleType) -> None:
    """Check the ``KAIWO_API`` of a plugin's module: ``1``, or the lowest version it works with, ``"1.2"``.

    Raises:
        InvalidPlugin: it states none, no version, another major version, or a newer minor version.
    """
    host = f"{API_MAJOR}.{API_MINOR}"
    stated = getattr(module, "KAIWO_API", None)
    if stated is None:
        raise InvalidPlugin(f'{module.__name__} states no API version; add KAIWO_API = "{host}"', API_VERSION)
    major, minor = _parse(stated, host)
    if major != API_MAJOR:
        upgrade = ", or upgrade kaiwo" if major > API_MAJOR else ""
        raise InvalidPlugin(
            f"plugin was written for API {major}, this host has {host}; "
            f"install a release of the plugin for API {API_MAJOR}{upgrade}",
            API_VERSION,
        )
    if minor > API_MINOR:
        raise InvalidPlugin(
            f"plugin needs API {major}.{minor}, this host has {host}; upgrade kaiwo", API_VERSION
        )


def _parse(stated: object, host: str) -> tuple[int, int]:
    if type(stated) is int and stated >= 0:
        return stated, 0
    if isinstance(stated, str) and (match := _VERSION.fullmatch(stated)):
        return int(match[1]), int(match[2])
    raise InvalidPlugin(
        f'KAIWO_API is {stated!r}, expected a version like "{host}" or the integer {API_MAJOR}',
        API_VERSION,
    )
