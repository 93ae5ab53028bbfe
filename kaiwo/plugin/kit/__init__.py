"""What plugins are written with: helpers for the code behind the declarations of ``kaiwo.plugin``.

Together with ``kaiwo.plugin`` these modules are the API that a plugin states the version of (``KAIWO_API``).
A name in the ``__all__`` of a module stays until the next major version, and a new one raises the minor
version (``docs/decisions/plugin-kit.md``). Plugins import nothing else of Kaiwo, but ``kaiwo.cli.kit`` in
commands and ``kaiwo.testing`` in tests.

Each module is imported by itself, so that a declaration that needs a few constants does not load what
renders pods. `addresses`, `kinds`, `json_access`, `values`, `names`, `nodes`, `cache` and both `errors`
import no heavy library. The others belong into code that is imported on first use.
"""
