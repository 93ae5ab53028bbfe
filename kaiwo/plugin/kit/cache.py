"""The operator's cache of live objects: what it keeps of each kind, and what controllers read from it."""

from kaiwo.engine.cached_object import CachedObject, Projection, managers_of
from kaiwo.engine.store import Cache, CacheEvent

__all__ = ["Cache", "CacheEvent", "CachedObject", "Projection", "managers_of"]
