"""Finding the sandbox's programs, or making them: a directory, the cache, images, or a Go build."""

from __future__ import annotations

from kaiwo_sandbox.binaries.resolve import Binaries, ensure

__all__ = ["Binaries", "ensure"]
