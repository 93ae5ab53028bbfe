"""The entrypoint: from a script in a field to a command, or to Ray's entrypoint."""

from __future__ import annotations

import re

from kaiwo.api.scalars import MAX_ENTRYPOINT_BYTES
from kaiwo.workload.errors import SpecError

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"})
_EVAL = frozenset({"perl", "ruby", "node", "nodejs"})
_PYTHON = re.compile(r"python[0-9.]*")
_CONTINUATION = re.compile(r"\\[ \t]*\r?\n")
_PATH = "spec.entrypoint"


def trimmed(text: str | None) -> str:
    """The entrypoint without blanks around it; empty when there is none.

    Raises:
        SpecError: it is longer than Linux can pass to a program.
    """
    text = (text or "").strip()
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_ENTRYPOINT_BYTES:
        raise SpecError(
            _PATH,
            f"has {size} bytes, at most {MAX_ENTRYPOINT_BYTES} are possible because Linux takes no longer "
            "argument; put the script into the image or onto the data volume and call it from here",
        )
    return text


def _flag(interpreter: str) -> str:
    name = interpreter.rsplit("/", 1)[-1]
    if name in _SHELLS or _PYTHON.fullmatch(name):
        return "-c"
    if name in _EVAL:
        return "-e"
    raise SpecError(
        _PATH,
        f"the interpreter {name!r} in its first line is not known to take a script as an argument; "
        "use a shell, python, perl, ruby or node, or call a script in the image",
    )


def _interpreter_of_env(arguments: list[str]) -> str:
    for argument in arguments:
        if not argument.startswith("-") and "=" not in argument:
            return argument
    raise SpecError(
        _PATH, "its first line calls env without naming an interpreter; write '#!/usr/bin/env bash'"
    )


def command(text: str | None) -> list[str] | None:
    """The container command for an entrypoint; None when it is empty and the container stays as it is.

    A first line ``#!interpreter arguments`` chooses the interpreter, else it is ``/bin/sh``. The rest of the
    text is passed on untouched.

    Raises:
        SpecError: the text is too long or the interpreter takes no script as an argument.
    """
    script = trimmed(text)
    if not script:
        return None
    if not script.startswith("#!"):
        return ["/bin/sh", "-c", script]
    first, _, rest = script.partition("\n")
    words = first[2:].split()
    if not words:
        raise SpecError(_PATH, "its first line '#!' names no interpreter; write '#!/bin/bash' or remove it")
    interpreter, arguments = words[0], words[1:]
    if interpreter.rsplit("/", 1)[-1] == "env":
        # "env -S" splits one argument into several; here they are separate already.
        arguments = [argument for argument in arguments if argument not in ("-S", "--split-string")]
        flag = _flag(_interpreter_of_env(arguments))
    else:
        flag = _flag(interpreter)
    return [interpreter, *arguments, flag, rest]


def ray_entrypoint(text: str | None) -> tuple[str, tuple[str, ...]]:
    """The entrypoint of a RayJob and warnings about it; empty when there is none.

    A backslash before a line end joins the lines; other line ends stay.

    Raises:
        SpecError: the text is too long.
    """
    line = _CONTINUATION.sub(" ", trimmed(text))
    if not line or any(_is_python(token.strip("\"'`;&|()")) for token in line.split()):
        return line, ()
    return line, (f"{_PATH}: names no Python script; Ray runs it as a shell command on the head",)


def _is_python(token: str) -> bool:
    return token.endswith(".py") or token.rpartition("/")[2].startswith("python")
