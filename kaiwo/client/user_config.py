"""``kaiwoconfig.yaml``: what a person would otherwise type at every submit.

Looked for at ``--config``, then the path in ``KAIWOCONFIG``, then ``~/.config/kaiwo/kaiwoconfig.yaml``
(``XDG_CONFIG_HOME`` is respected). Its values are used where neither a flag nor the manifest has one::

    user: jane@example.org
    clusterQueue: team-a
    namespace: team-a
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kaiwo.api.errors import describe, not_a_string
from kaiwo.api.suggestion import did_you_mean
from kaiwo.client.errors import InvalidArgument
from kaiwo.engine.yaml_reader import parse
from kaiwo.engine.yaml_scalars import DocumentError

VARIABLE = "KAIWOCONFIG"

KEYS = ("user", "clusterQueue", "namespace")


@dataclass(frozen=True, slots=True)
class UserConfig:
    """The values of the file, None where it has none.

    Attributes:
        user: who submits.
        cluster_queue: queue for workloads that name none.
        namespace: for workloads that name none, unless ``-n`` is given.
        source: path of the file, None without one.
    """

    user: str | None = None
    cluster_queue: str | None = None
    namespace: str | None = None
    source: Path | None = None


def load(flag: str | None = None) -> UserConfig:
    """Read the file that applies; no file at the usual place is no error, at a named place it is.

    Raises:
        InvalidArgument: the file cannot be read or used; line and column are named.
    """
    named = flag or os.environ.get(VARIABLE)
    path = Path(named).expanduser() if named else default_path()
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        if not named:
            return UserConfig()
        origin = "--config" if flag else VARIABLE
        raise InvalidArgument(
            f"{path}: no such file ({origin})", f"create the file or leave {origin} out"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InvalidArgument(
            f"{path}: cannot be read: {reason}", "check the file and its permissions"
        ) from None
    return _read(text, path)


def default_path() -> Path:
    """The path of the file when neither a flag nor a variable names one."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path("~/.config").expanduser()) / "kaiwo" / "kaiwoconfig.yaml"


def _read(text: str, path: Path) -> UserConfig:
    example = 'write for example "user: jane@example.org"'
    try:
        documents = list(parse(text))
    except DocumentError as error:
        raise InvalidArgument(f"{path}:{error.line}:{error.column}: {error.message}", example) from None
    if not documents:
        return UserConfig(source=path)
    document = documents[0]
    if len(documents) > 1 or not isinstance(document.value, dict):
        what = "several documents" if len(documents) > 1 else describe(document.value)
        raise InvalidArgument(f"{path}: expected keys and values, got {what}", example)
    problems = []
    for key, value in document.value.items():
        line, column = document.position((key,))
        where = f"{path}:{line}:{column}: {key}"
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) or f"known: {', '.join(KEYS)}"
            problems.append(f"{where}: unknown key; {hint}")
        elif value is not None and not isinstance(value, str):
            written = document.written.get((key,), value)
            problem = not_a_string(key, value, str(written))
            problems.append(f"{where}: {problem.message}; {problem.hint}")
        elif value == "":
            problems.append(f"{where}: empty; give a value or remove the line")
    if problems:
        raise InvalidArgument("\n       ".join(problems))
    values = document.value
    return UserConfig(
        user=values.get("user"),
        cluster_queue=values.get("clusterQueue"),
        namespace=values.get("namespace"),
        source=path,
    )
