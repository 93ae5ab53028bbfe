"""Parses items of the configuration into their models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    from kaiwo.api.base_model import Model

M = TypeVar("M", bound="Model")


def first_error(error: ValidationError) -> str:
    """The first validation error and its place, without the value, which may be a secret."""
    found = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in found["loc"])
    message = found["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def parse_item(where: str, model: type[M], raw: dict[str, Any]) -> M:
    """Parse one item.

    Raises:
        ConfigError: it is invalid.
    """
    try:
        return model.parse(raw)
    except ValidationError as error:
        raise ConfigError(where, first_error(error), "correct the item") from None
