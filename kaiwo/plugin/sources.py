"""Download sources: what can be downloaded before a workload starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kaiwo.api.errors import Problem
from kaiwo.plugin.declaration import Declaration
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel, ValidationError


@dataclass(frozen=True, slots=True, order=True)
class SecretReference:
    """A value in a Secret of the workload's namespace that an item refers to.

    Attributes:
        name: name of the Secret.
        key: the key in it; no other key is mounted.
        file: where the download program expects the value; empty for the usual place,
            ``/app/secrets/<name>/<key>``.
    """

    name: str
    key: str
    file: str = ""


WarningsOf: TypeAlias = Callable[[Mapping[str, Any]], Iterable[Problem]]

SecretsOf: TypeAlias = Callable[[Mapping[str, Any]], tuple[SecretReference, ...]]


def secret_references(item: Mapping[str, Any]) -> tuple[SecretReference, ...]:
    """Every object ``{secretName, secretKey, file?}`` in an item, at any depth, in order, each once."""
    return tuple(dict.fromkeys(_references(item)))


def secret_reference(value: object) -> SecretReference | None:
    """The reference that an object ``{secretName, secretKey, file?}`` is; None for any other value."""
    if not isinstance(value, Mapping):
        return None
    name, key, file = (value.get(field) for field in ("secretName", "secretKey", "file"))
    if not isinstance(name, str) or not isinstance(key, str):
        return None
    return SecretReference(name, key, file if isinstance(file, str) else "")


def _references(value: object) -> Iterator[SecretReference]:
    if reference := secret_reference(value):
        yield reference
        return
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _references(part)


def no_warnings(item: Mapping[str, Any]) -> tuple[Problem, ...]:  # noqa: ARG001 - what a source may say instead
    """Nothing of an item deserves a warning."""
    return ()


DOWNLOAD_RULES: Final[tuple[PolicyRule, ...]] = (
    PolicyRule(
        ("",),
        ("configmaps",),
        ("get", "list", "watch", "create", "patch"),
        "the configuration of a download pod",
        own_objects=True,
    ),
    PolicyRule(
        ("batch",),
        ("jobs",),
        ("get", "list", "watch", "create", "delete"),
        "the Job that downloads before a workload starts",
        own_objects=True,
    ),
    PolicyRule(("",), ("pods/log",), ("get",), "how far a download is"),
)
"""What the operator needs to have anything downloaded."""


@dataclass(frozen=True, slots=True)
class DownloadSource(Declaration):
    """A source of data or models.

    Attributes:
        name: short name, as in logs and ``kaiwo plugins`` (``s3``).
        path: the list field it owns, below ``spec.storage`` in JSON names: ``("data", "download", "s3")``.
        item: pydantic model of one item; it is composed into both workload kinds.
        description: for the reference and ``kubectl explain``.
        downloader: ``module:function`` that runs inside the download container; None while the
            source is only declared (its field is in the CRDs, nothing can fetch it yet). It is called
            as ``function(items, downloads)`` with the items as users wrote them and a
            :class:`kaiwo.plugin.kit.downloads.Downloads`, and adds its downloads there; all sources are then
            fetched together. The operator never imports it. Where the source names a settings model, the
            third argument is the plugin's settings in JSON names, as they were when the download began.
            They are in a ConfigMap in the workload's namespace: a secret does not belong there.
        secrets: pure function: the Secrets an item refers to; only these keys are mounted into the download
            pod. The default finds every ``{secretName, secretKey, file?}``.
        warnings: pure function: what of an item is ignored or probably not meant, with paths below the item
            (``commit``). It is given items that the model takes, and changes nothing about them.
        rules: what it needs of the cluster.
        credentials: fields of an item that refer to Secrets with its credentials, in JSON names. An item that
            gives none of them gets those of its namespace's defaults.
        needs_credentials: whether an item is of no use without.
    """

    name: str
    path: tuple[str, ...]
    item: type[BaseModel]
    description: str
    downloader: str | None = None
    secrets: SecretsOf = secret_references
    warnings: WarningsOf = no_warnings
    rules: tuple[PolicyRule, ...] = DOWNLOAD_RULES
    credentials: tuple[str, ...] = ()
    needs_credentials: bool = False

    def gives_credentials(self, item: Mapping[str, Any]) -> bool:
        """Whether an item names credentials of its own, or the source has no such fields."""
        return not self.credentials or any(item.get(name) is not None for name in self.credentials)

    def item_error(self, item: Mapping[str, Any]) -> ValidationError | None:
        """Why the model does not accept an item as users write it; None where it does."""
        from pydantic import ValidationError

        try:
            self.item.model_validate(item, by_alias=True, by_name=False)
        except ValidationError as error:
            return error
        return None

    def warn(self, items: object) -> Iterator[Problem]:
        """What of a list of items deserves a warning, with paths below the list (``[0].commit``)."""
        for position, item in enumerate(items if isinstance(items, list | tuple) else ()):
            if isinstance(item, Mapping):
                for problem in self.warnings(item):
                    yield replace(problem, path=f"[{position}].{problem.path}")
