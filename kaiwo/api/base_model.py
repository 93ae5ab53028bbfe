"""The base class of all API models.

:meth:`Model.parse` is for user input and rejects unknown fields, as the API server does with strict field
validation. :meth:`Model.read` is for objects from the API server and ignores fields of other versions. Both
take JSON names only and convert nothing: ``"4"`` is not a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object


class Model(BaseModel):
    """A part of an object: JSON names in camel case, Python names in snake case, frozen once made."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        """Treat ``field: null`` as not given: the API server prunes such nulls before it sets defaults."""
        if isinstance(value, dict) and None in value.values():
            known = {info.alias or name for name, info in cls.model_fields.items()}
            return {key: item for key, item in value.items() if item is not None or key not in known}
        return value

    @classmethod
    def parse(cls, obj: Object) -> Self:
        """Read user input; unknown fields are errors.

        Raises:
            pydantic.ValidationError: with JSON names in its locations.
        """
        return cls.model_validate(obj, by_alias=True, by_name=False)

    @classmethod
    def read(cls, obj: Object) -> Self:
        """Read an object from the API server; unknown fields are ignored at every depth.

        Raises:
            pydantic.ValidationError: a known field has an invalid value.
        """
        return cls.model_validate(obj, by_alias=True, by_name=False, extra="ignore")

    def dump(self) -> Object:
        """The model as JSON-ready data: JSON names, only what was given."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
