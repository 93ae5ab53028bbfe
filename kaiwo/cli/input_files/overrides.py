"""What flags and kaiwoconfig.yaml change in manifests: flag > manifest > file > the cluster's default."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo.cli.failures import USAGE, Failure
from kaiwo.engine.field_paths import Path, format_path, parse_path
from kaiwo.engine.yaml_reader import parse_value
from kaiwo.engine.yaml_scalars import DocumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.cli.input_files.workload_file import WorkloadFile
    from kaiwo.client.user_config import UserConfig

_ROOTS = ("apiVersion", "kind", "metadata", "spec")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One ``--set``: a path from the object's root, the value, and the words that were typed."""

    path: Path
    value: Any
    flag: str


def assignments(texts: Sequence[str]) -> list[Assignment]:
    """Read ``--set``: ``gpus=4``, ``env[0].value=x``, ``metadata.labels["a/b"]=c``; ``image=`` removes.

    A path that does not start at the object's root is one below ``spec``. A value is YAML, as in a manifest;
    text that is no YAML is itself.

    Raises:
        Failure: no ``=``, or no path.
    """
    found = []
    for text in texts:
        name, equals, written = text.partition("=")
        path = parse_path(name.strip())
        if path and path[0] == "status":
            raise Failure(
                f"--set {text}: status is written by the operator",
                "set a field below spec or metadata",
                code=USAGE,
            )
        if not equals or path is None:
            raise Failure(
                f"--set {text}: expected FIELD=VALUE",
                "for example: --set gpus=4 --set env[0].value=debug",
                code=USAGE,
            )
        if path[0] not in _ROOTS:
            path = ("spec", *path)
        try:
            value = parse_value(written)
        except DocumentError:
            value = written
        found.append(Assignment(path, value, f"--set {name.strip()}"))
    return found


def override(
    manifests: Iterable[WorkloadFile],
    *,
    user: str | None,
    queue: str | None,
    namespace: str | None,
    config: UserConfig,
    sets: Sequence[Assignment] = (),
) -> None:
    """Change the manifests in place.

    Args:
        manifests: what was read.
        user: ``--user``.
        queue: ``--queue``.
        namespace: ``-n``.
        config: kaiwoconfig.yaml.
        sets: ``--set``, in order.

    Raises:
        Failure: a ``--set`` path goes through something that is no mapping or list.
    """
    for manifest in manifests:
        for assignment in sets:
            _assign(manifest, assignment)
        _prefer(manifest, ("spec", "user"), user, "--user", config.user)
        _prefer(manifest, ("spec", "clusterQueue"), queue, "--queue", config.cluster_queue)
        _prefer(manifest, ("metadata", "namespace"), namespace, "-n", config.namespace)


def _prefer(
    manifest: WorkloadFile, path: tuple[str, str], flag: str | None, option: str, fallback: str | None
) -> None:
    section, key = path
    holder = manifest.obj.get(section)
    if holder is None:
        holder = manifest.obj[section] = {}
    if not isinstance(holder, dict):
        return
    if flag is not None:
        holder[key] = flag
        manifest.flags[path] = option
    elif holder.get(key) in (None, "") and fallback:
        holder[key] = fallback


def _assign(manifest: WorkloadFile, assignment: Assignment) -> None:
    *parents, last = assignment.path
    holder: Any = manifest.obj
    for depth, part in enumerate(parents):
        holder = _child(holder, part, assignment, assignment.path[: depth + 1], assignment.path[depth + 1])
    value = copy.deepcopy(assignment.value)
    if isinstance(holder, dict) and isinstance(last, str):
        if value is None:
            holder.pop(last, None)
        else:
            holder[last] = value
    elif isinstance(holder, list) and isinstance(last, int) and last <= len(holder):
        holder[last : last + 1] = [] if value is None else [value]
    else:
        raise _no_such_path(assignment, assignment.path[:-1], holder)
    manifest.flags[assignment.path] = assignment.flag


def _child(holder: Any, part: str | int, assignment: Assignment, path: Path, following: str | int) -> Any:
    """The value one step on; made when it is missing."""
    fresh: Any = [] if isinstance(following, int) else {}
    if isinstance(holder, dict) and isinstance(part, str):
        if holder.get(part) is None:
            holder[part] = fresh
        return holder[part]
    if isinstance(holder, list) and isinstance(part, int) and part <= len(holder):
        if part == len(holder):
            holder.append(fresh)
        return holder[part]
    raise _no_such_path(assignment, path[:-1], holder)


def _no_such_path(assignment: Assignment, path: Path, holder: Any) -> Failure:
    place = format_path(path) or "the object"
    if isinstance(holder, list):
        upper = f" up to {place}[{len(holder)}]" if holder else ""
        what = f"a list of {len(holder)}; write {place}[0]{upper}"
    elif isinstance(holder, dict):
        what = f"a mapping; write {place}.NAME"
    else:
        what = "neither a mapping nor a list"
    return Failure(f"{assignment.flag}: {place} is {what}", code=USAGE)
