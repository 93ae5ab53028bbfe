"""Controllers of a plugin's own: what they watch, read and write with."""

from kaiwo.api.crd_compat import max_items
from kaiwo.engine.access_review import is_allowed
from kaiwo.engine.client import Client
from kaiwo.engine.condition_report import ConditionReporter
from kaiwo.engine.controller import Controller, Watch
from kaiwo.engine.manager import Manager
from kaiwo.engine.repeated_writes import RepeatedWrites
from kaiwo.engine.workqueue import Key
from kaiwo.engine.writer import NameConflict, render_hash

__all__ = [
    "Client",
    "ConditionReporter",
    "Controller",
    "Key",
    "Manager",
    "NameConflict",
    "RepeatedWrites",
    "Watch",
    "is_allowed",
    "max_items",
    "render_hash",
]
