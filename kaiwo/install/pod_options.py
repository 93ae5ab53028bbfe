"""The administrator's choices for all pods of an installation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.install.deployment import PRIORITY_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.resource import Object
    from kaiwo.install.rendered_manifest import RenderedManifest


@dataclass(frozen=True, slots=True)
class PodOptions:
    """What is the same in the pods of operator and scheduler.

    Attributes:
        priority_class: their priority class; empty for none.
        image_pull_secrets: names of Secrets with credentials of the images' registries.
    """

    priority_class: str = PRIORITY_CLASS
    image_pull_secrets: tuple[str, ...] = ()


def with_pod_options(manifests: Iterable[RenderedManifest], options: PodOptions) -> list[RenderedManifest]:
    """Objects whose Deployments have the chosen options.

    Args:
        manifests: rendered objects.
        options: what the administrator chose.
    """
    return [
        replace(one, obj=_with_options(one.obj, options)) if one.obj["kind"] == "Deployment" else one
        for one in manifests
    ]


def _with_options(deployment: Object, options: PodOptions) -> Object:
    template = deployment["spec"]["template"]
    pod = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
    if options.priority_class:
        pod = {**template["spec"], "priorityClassName": options.priority_class}
    if options.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in options.image_pull_secrets]
    return {**deployment, "spec": {**deployment["spec"], "template": {**template, "spec": pod}}}
