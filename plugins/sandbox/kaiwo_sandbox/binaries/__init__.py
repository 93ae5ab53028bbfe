"""The programs of a sandbox, from a directory, the cache, container images or a Go build."""

from __future__ import annotations

from kaiwo_sandbox.binaries.resolve import Binaries, ensure, ensure_helm, why_no_addons

__all__ = ["Binaries", "ensure", "ensure_helm", "why_no_addons"]
