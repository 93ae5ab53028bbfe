"""The listener and the lifecycle: both write to the operator's log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo.plugin.lifecycle import Transition
    from kaiwo_site_defaults.settings import SiteSettings

_log = logging.getLogger(__name__)


async def notify(transition: Transition, settings: SiteSettings) -> None:
    """Announce a transition to one of the status words in the settings of this moment."""
    if transition.after in settings.announce:
        _log.warning(
            "%s %s/%s is %s: %s",
            transition.kind,
            transition.namespace,
            transition.name,
            transition.after,
            transition.message,
        )


async def start(settings: SiteSettings) -> None:
    """Say what is announced from now on; KaiwoConfig was read before."""
    _log.info("announcing %s", ", ".join(settings.announce) or "nothing")


async def settings_changed(settings: SiteSettings) -> None:
    """Say what is announced after an edit of KaiwoConfig."""
    _log.info("announcing %s from now on", ", ".join(settings.announce) or "nothing")
