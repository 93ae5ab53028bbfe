"""What the code of a plugin raises or returns where something is wrong."""

from kaiwo.api.errors import Problem
from kaiwo.workload.errors import PluginError, SpecError

__all__ = ["PluginError", "Problem", "SpecError"]
