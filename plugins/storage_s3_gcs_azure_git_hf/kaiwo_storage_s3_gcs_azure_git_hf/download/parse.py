"""Items of the configuration, read into their models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    from kaiwo.api.base_model import Model

M = TypeVar("M", bound="Model")


def first_mistake(error: ValidationError) -> str:
    """The first mistake and its place, without the value: it could be a secret."""
    found = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in found["loc"])
    said = found["msg"].removeprefix("Value error, ")
    return f"{place}: {said}" if place else said


def item(where: str, model: type[M], raw: dict[str, Any]) -> M:
    """One item.

    Raises:
        ConfigError: it is wrong.
    """
    try:
        return model.parse(raw)
    except ValidationError as error:
        raise ConfigError(where, first_mistake(error), "correct the item") from None
