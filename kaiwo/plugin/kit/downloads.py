"""Code of a download source that runs in the download container, and the configuration that it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from kaiwo.api.download import (
    CONTAINER,
    SECRETS_PATH,
    DownloadConfig,
    DownloadLimits,
    DownloadPolicy,
    Downloads,
    ItemObject,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.api.base_model import Model

    M = TypeVar("M", bound=Model)

__all__ = [
    "CONTAINER",
    "SECRETS_PATH",
    "DownloadConfig",
    "DownloadLimits",
    "DownloadPolicy",
    "Downloads",
    "ItemError",
    "ItemObject",
    "first_error",
    "parse_item",
    "parse_items",
]


class ItemError(ValueError):
    """An item of a download source cannot be used; the download fails at once with this text.

    Attributes:
        where: the item, with its index: ``webdav[2]``.
        problem: what is wrong, why, and what to do. Never the value of a Secret.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


def first_error(error: ValidationError) -> str:
    """The first error of a model and the field it is about, without the value, which may be a secret."""
    found = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in found["loc"])
    message = found["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def parse_item(where: str, model: type[M], raw: ItemObject) -> M:
    """One item as its model.

    Args:
        where: the item, with its index, for messages.
        model: the model of the source's items.
        raw: the item as the user wrote it.

    Raises:
        ItemError: the model does not accept it.
    """
    try:
        return model.parse(raw)
    except ValidationError as error:
        raise ItemError(where, first_error(error)) from None


def parse_items(name: str, model: type[M], items: Iterable[ItemObject]) -> Iterator[tuple[str, M]]:
    """Each item as its model, with what names it in messages: ``("webdav[0]", item)``.

    Args:
        name: the field of the source, as users write it.
        model: the model of the source's items.
        items: the items as users wrote them.

    Raises:
        ItemError: the model does not accept one.
    """
    for index, raw in enumerate(items):
        where = f"{name}[{index}]"
        yield where, parse_item(where, model, raw)
