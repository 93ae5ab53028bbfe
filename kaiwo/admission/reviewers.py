"""Who reviews at which HTTP path."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.admission.answer import Answer
from kaiwo.admission.configurations import ConfigurationReviewer
from kaiwo.admission.identity import IdentityReviewer
from kaiwo.admission.names import (
    MUTATE_WORKLOADS,
    VALIDATE_CONFIGURATIONS,
    VALIDATE_TEMPLATES,
    VALIDATE_WORKLOADS,
)
from kaiwo.admission.templates import TemplateReviewer
from kaiwo.admission.workloads import WorkloadReviewer
from kaiwo.engine.logging import about

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kaiwo.admission.request import Request
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Facts, Registry

    Reviewer: TypeAlias = Callable[[Request], Answer]

_log = logging.getLogger(__name__)


def reviewers(
    plugins: Plugins,
    registry: Registry,
    facts: Callable[[], Facts],
    *,
    identity: Literal["off", "set", "check"] = "off",
    exempt: Collection[str] = (),
) -> dict[str, Reviewer]:
    """The reviewers of Kaiwo's own kinds, by path.

    The caller puts each review under a time limit, since plugins are called in it. What the limit raises in
    a plugin's function becomes a warning.

    Args:
        plugins: loaded plugins.
        registry: their declarations.
        facts: what is known of the cluster, without anything of single workloads.
        identity: the process setting.
        exempt: users that may name others, see :class:`IdentityReviewer`.
    """
    found: dict[str, Reviewer] = {
        VALIDATE_WORKLOADS: _tolerant(WorkloadReviewer(plugins, registry, facts)),
        VALIDATE_CONFIGURATIONS: _tolerant(ConfigurationReviewer(plugins)),
        VALIDATE_TEMPLATES: TemplateReviewer(plugins.backends),
    }
    if identity != "off":
        found[MUTATE_WORKLOADS] = IdentityReviewer(identity, exempt)
    return found


def _tolerant(reviewer: Reviewer) -> Reviewer:
    """The reviewer of objects that a controller checks again: a failure of its own lets the object pass."""

    def review(request: Request) -> Answer:
        try:
            return reviewer(request)
        except Exception as error:  # noqa: BLE001  of ours or of a plugin, also its time limit
            _log.exception(
                "review of %s %s/%s failed", request.kind, request.namespace, request.name,
                extra=about(request.kind, request.namespace, request.name),
            )  # fmt: skip
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return Answer(allowed=True, warnings=(f"not validated: {what}; the operator checks it again",))

    return review
