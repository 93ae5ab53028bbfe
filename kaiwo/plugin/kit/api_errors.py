"""What reading from and writing to the API server raises."""

from kaiwo.engine.errors import (
    AlreadyExists,
    ApiError,
    ChangedBack,
    Conflict,
    ConnectionBroken,
    EngineError,
    Forbidden,
    Invalid,
    NotFound,
)

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ChangedBack",
    "Conflict",
    "ConnectionBroken",
    "EngineError",
    "Forbidden",
    "Invalid",
    "NotFound",
]
