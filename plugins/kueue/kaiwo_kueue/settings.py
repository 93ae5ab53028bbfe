"""Settings of the plugin, ``spec.plugins.kueue`` in KaiwoConfig."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kaiwo.plugin.kit.fields import Model


class KueueSettings(Model):
    """How workloads are queued with Kueue."""

    label_namespaces: Annotated[
        bool,
        Field(
            description="Whether a namespace is labelled kueue-managed=true when the first workload in it "
            "names a queue. Kueue's usual installation ignores namespaces without that label. It is "
            "never taken back."
        ),
    ] = True

    controller_account: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            description="User name of Kueue's controller. It may change the GPU requests of Jobs that Kaiwo "
            "manages, as it does when it admits a part of one.",
        ),
    ] = "system:serviceaccount:kueue-system:kueue-controller-manager"

    integrations: Annotated[
        tuple[str, ...] | None,
        Field(
            strict=False,
            max_length=64,
            description="Kinds that this cluster's Kueue queues by itself, as its own configuration lists "
            "them (integrations.frameworks, for example ray.io/rayservice; Kueue 0.17 and later). What is "
            "not named here is wrapped where that is possible.",
        ),
    ] = None
