"""The plugin API: hook specifications, the declarations they return, and the loader.

A plugin's module needs two names from here and the declarations it returns::

    from kaiwo.plugin import hookimpl

    KAIWO_API = "1.0"  # the version of the plugin API it was written for; 1 means the same
"""

from kaiwo.plugin.hookspecs import API_MAJOR, API_MINOR, hookimpl

__all__ = ["API_MAJOR", "API_MINOR", "hookimpl"]
