"""The namespace of the operator and the scheduler."""

from __future__ import annotations

from kaiwo.install.rendered_manifest import RenderedManifest, head


def namespace(name: str) -> RenderedManifest:
    """The namespace; Pod Security ``restricted`` is enforced in it."""
    obj = head("v1", "Namespace", name, app="kaiwo")
    obj["metadata"]["labels"] |= {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    return RenderedManifest(obj)
