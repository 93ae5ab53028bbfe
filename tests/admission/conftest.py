"""The reviewers of an operator with all first-party backends, and two AMD nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_batch_job.plugin
import kaiwo_deployment.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_kueue.plugin
import kaiwo_ray_job.plugin
import kaiwo_ray_service.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.admission.review import review
from kaiwo.admission.reviewers import reviewers
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.testing import node, plugins
from kaiwo.testing.admission import USER, admission_review, answered
from kaiwo.testing.builders import NOW
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Facts, Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.admission.answer import Answer
    from kaiwo.admission.request import Request
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

PLUGINS = plugins(
    kaiwo_batch_job.plugin,
    kaiwo_deployment.plugin,
    kaiwo_gpu_amd.plugin,
    kaiwo_kueue.plugin,
    kaiwo_ray_job.plugin,
    kaiwo_ray_service.plugin,
    kaiwo_storage_s3_gcs_azure_git_hf.plugin,
)
REGISTRY = Registry.of(PLUGINS)
PRODUCT = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
FACTS = Facts(
    now=NOW,
    config=ResolvedConfig.defaults(),
    nodes=tuple(
        node_fact(node(name, gpus={"amd.com/gpu": 8}, labels=PRODUCT), REGISTRY.vendors)
        for name in ("amd-1", "amd-2")
    ),
)


@dataclass
class Webhooks:
    """What the webhooks answer to writes."""

    reviewers: Mapping[str, Callable[[Request], Answer]]
    plugins: Plugins = PLUGINS
    registry: Registry = REGISTRY

    @classmethod
    def of(
        cls, plugins: Plugins = PLUGINS, registry: Registry | None = None, *, facts: Any = None, **more: Any
    ) -> Webhooks:
        """The webhooks of other plugins, or of plugins that fail."""
        known = registry or Registry.of(plugins)
        return cls(reviewers(plugins, known, facts or (lambda: FACTS), **more), plugins, known)

    def ask(
        self, path: str, obj: Object | None, old: Object | None = None, *, user: str = USER, **more: Any
    ) -> dict[str, Any]:
        """The response to a CREATE, or with `old` to an UPDATE."""
        body = admission_review(obj, old=old, user=user, **more)
        return answered(review(body, self.reviewers, path))


@pytest.fixture(scope="session")
def webhooks() -> Webhooks:
    """The webhooks of an operator that sets identities."""
    return Webhooks.of(identity="set", exempt=("operator",))


@pytest.fixture(scope="session")
def checking() -> Webhooks:
    """The webhooks of an operator that checks identities."""
    return Webhooks.of(identity="check", exempt=("operator",))
