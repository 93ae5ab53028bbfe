"""The namespace of the operator and the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.install.rendered_manifest import RenderedManifest

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object


def namespace(name: str, *, restricted: bool) -> RenderedManifest:
    """The namespace, with nothing but its name unless more is asked for: it may exist and be somebody else's.

    Args:
        name: of the namespace.
        restricted: whether it gets labels that enforce the pod security standard ``restricted``.
    """
    metadata: Object = {"name": name}
    if restricted:
        metadata["labels"] = {
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/warn": "restricted",
        }
    return RenderedManifest({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
