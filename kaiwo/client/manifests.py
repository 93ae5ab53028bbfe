"""Workloads as scripts give them: YAML text, a file, a mapping, or a model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from kaiwo.client.errors import InvalidArgument, InvalidManifest
from kaiwo.client.kinds import BY_KIND, GROUP, VERSION
from kaiwo.client.names import random_suffix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.api.validate import Validator
    from kaiwo.client.user_config import UserConfig
    from kaiwo.engine.resource import Object


@runtime_checkable
class ObjectModel(Protocol):
    """A model of a whole object, such as those of `kaiwo.api`."""

    def dump(self) -> Object:
        """The object as JSON-ready data."""
        ...


Manifest: TypeAlias = "str | Path | Mapping[str, Any] | ObjectModel"
"""YAML or JSON text of one or several workloads, the path of such a file, a mapping, or a model."""


def read(source: Manifest) -> list[Object]:
    """The workloads of a source, as copies that may be changed.

    A text of one line that ends in ``.yaml``, ``.yml`` or ``.json`` is the path of a file.

    Raises:
        InvalidArgument: it cannot be read, or holds something else than workloads.
    """
    from kaiwo.engine.yaml_reader import parse
    from kaiwo.engine.yaml_scalars import DocumentError

    if isinstance(source, ObjectModel):
        return [source.dump()]
    if not isinstance(source, str | Path):
        return [copy.deepcopy(dict(source))]
    where = "the text"
    if isinstance(source, Path) or ("\n" not in source and source.endswith((".yaml", ".yml", ".json"))):
        where = str(source)
        try:
            source = Path(source).expanduser().read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise InvalidArgument(f"{where}: cannot be read: {reason}") from error
    try:
        values = [document.value for document in parse(source)]
    except DocumentError as error:
        raise InvalidArgument(f"{where}:{error.line}:{error.column}: {error.message}") from error
    found: list[Object] = []
    for value in values:
        items = value.get("items") if isinstance(value, dict) and "items" in value else [value]
        for item in items if isinstance(items, list) else [items]:
            if not isinstance(item, dict):
                raise InvalidArgument(
                    f"{where}: expected a workload", "a workload starts with apiVersion and kind"
                )
            found.append(item)
    if not found:
        raise InvalidArgument(f"{where}: no workload", "a workload starts with apiVersion and kind")
    return found


def complete(
    objects: Sequence[Object], validator: Validator, config: UserConfig, namespace: str
) -> list[list[str]]:
    """Validate workloads and fill in what the user's configuration says, in place.

    Args:
        objects: workloads.
        validator: knows the fields of all loaded plugins.
        config: kaiwoconfig.yaml; its values stand in for missing ones.
        namespace: for workloads that name none.

    Returns:
        the warnings about each.

    Raises:
        InvalidManifest: a workload that the cluster would reject.
    """
    from kaiwo.api.metadata_checks import generated

    problems: list[str] = []
    warnings: list[list[str]] = []
    for obj in objects:
        if obj.get("kind") in BY_KIND:
            fill_in(obj, config, namespace)
        validation = validator.validate({key: value for key, value in obj.items() if key != "status"})
        problems += [str(problem) for problem in validation.problems]
        warnings.append([str(warning) for warning in validation.warnings])
        if obj.get("kind") not in BY_KIND and not validation.problems:
            problems.append(f"kind: {obj.get('kind')} is not a workload (known: {', '.join(BY_KIND)})")
    if problems:
        raise InvalidManifest(problems)
    for obj in objects:
        obj.pop("status", None)
        base = obj["metadata"].pop("generateName", None)
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = generated(base, random_suffix())
    return warnings


def fill_in(obj: Object, config: UserConfig, namespace: str) -> None:
    """Set what a workload leaves out: version, user, queue and namespace; in place."""
    obj.setdefault("apiVersion", f"{GROUP}/{VERSION}")
    _prefer(obj, "spec", "user", config.user)
    _prefer(obj, "spec", "clusterQueue", config.cluster_queue)
    _prefer(obj, "metadata", "namespace", namespace)


def check(obj: Object, validator: Validator) -> None:
    """Raise for a workload that breaks a rule.

    Raises:
        InvalidManifest: every problem, with its field.
    """
    if problems := validator.validate(obj).problems:
        raise InvalidManifest([str(problem) for problem in problems])


def _prefer(obj: Object, section: str, key: str, fallback: str | None) -> None:
    """Set a field that is missing or empty."""
    holder = obj.setdefault(section, {})
    if isinstance(holder, dict) and holder.get(key) in (None, "") and fallback:
        holder[key] = fallback
