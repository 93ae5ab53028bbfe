"""The plugin contract: hook specifications, the declarations they return, and the loader.

A plugin's module needs two names from here and the declarations it returns::

    from kaiwo.plugin import hookimpl

    KAIWO_API = 1  # the major version of the contract it was written for, see API_MAJOR
"""

from kaiwo.plugin.hookspecs import API_MAJOR, hookimpl

__all__ = ["API_MAJOR", "hookimpl"]
