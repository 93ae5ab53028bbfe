"""Names in KaiwoConfig. No model is imported here, so that a command can use one quickly."""

from __future__ import annotations

SINGLETON = "kaiwo"
"""The only name that is used; the status of any other KaiwoConfig says that it is ignored."""

DEFAULT_SCHEDULER = "kaiwo-scheduler"
"""The scheduler of generated pods, unless KaiwoConfig names another one."""
