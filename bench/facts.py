"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine() -> dict[str, str]:
    """Facts about this machine, in the order they are printed.

    The load average shows whether something else was running when the benchmark began: figures of two runs
    compare only if both began quiet.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "msgspec", "kopf", "pydantic"))
    return {
        "CPU": f"{_cpu_model()}, {os.cpu_count()} cores",
        "Memory": f"{memory:.0f} GiB",
        "System": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_version()}; {libraries}",
        "Load average before": load(),
    }


def load() -> str:
    """Processes that wanted a core in the last minute, on average; above the number of cores it is busy."""
    return f"{os.getloadavg()[0]:.1f}"
