"""What a plugin does in a process of its own: what its import costs, and the results of its functions.

It runs as ``python -m kaiwo.testing.conformance.fresh_process NAME``, with another seed of hashes than the
process that started it, and prints JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Final

from kaiwo.testing.conformance.results import FreshProcess

_SECONDS: Final = 120
_HASH_SEED: Final = "4321"


def run(name: str) -> FreshProcess:
    """Load an installed plugin in a new process and call its functions.

    Args:
        name: the plugin's name, also with its distribution.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONHASHSEED": _HASH_SEED,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, name],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return FreshProcess(error=f"did not end within {_SECONDS} s")
    last = done.stdout.splitlines()[-1:] or [""]
    if done.returncode or not last[0].startswith("{"):
        return FreshProcess(error=(done.stderr.splitlines() or ["no output"])[-1])
    return FreshProcess(**json.loads(last[0]))


def _libraries() -> set[str]:
    """Imported packages that are neither of the standard library nor of Kaiwo."""
    known = {"kaiwo", *sys.stdlib_module_names}
    names = {name.partition(".")[0] for name in sys.modules} - known
    return {name for name in names if not name.startswith(("__", "_sysconfigdata"))}


def _measure(name: str) -> FreshProcess:
    from kaiwo.plugin import loader
    from kaiwo.plugin.claims import decide
    from kaiwo.plugin.discovery import installed_plugins
    from kaiwo.plugin.selection import PluginSelection

    selection = PluginSelection(names=(name,))
    ((candidate,), _) = decide(installed_plugins(), selection)
    before = _libraries()
    began = time.thread_time()
    importlib.import_module(candidate.module)
    spent = time.thread_time() - began
    own = candidate.module.partition(".")[0]
    imported = _libraries() - before - {own}
    (plugin,) = loader.load(selection).loaded
    by_hooks = _libraries() - before - imported - {own}
    from kaiwo.testing.conformance.probing import outputs

    return FreshProcess(spent, sorted(imported), sorted(by_hooks), outputs(plugin))


if __name__ == "__main__":
    found = _measure(sys.argv[1])
    sys.stdout.write(f"\n{json.dumps(asdict(found))}\n")
