"""The plugin ``notify``: reports status changes of workloads to chats, webhooks and by e-mail."""

from __future__ import annotations

from kaiwo.plugin import hookimpl
from kaiwo.plugin.lifecycle import Lifecycle, TransitionListener

KAIWO_API = 1


@hookimpl
def kaiwo_transitions() -> list[TransitionListener]:
    """The listener that queues messages."""
    from kaiwo_notify.settings import NotifySettings

    return [TransitionListener(name="notify", notify="kaiwo_notify.listener:notify", settings=NotifySettings)]


@hookimpl
def kaiwo_lifecycle() -> list[Lifecycle]:
    """What ends the tasks that send."""
    return [Lifecycle(name="notify", stop="kaiwo_notify.listener:stop")]
