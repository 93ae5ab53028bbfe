"""Which program runs a script in a field: the one in its first line ``#!``, else ``/bin/sh``."""

from __future__ import annotations

import re

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"})
_EVAL = frozenset({"perl", "ruby", "node", "nodejs"})
_PYTHON = re.compile(r"python[0-9.]*")


def command_of(script: str) -> list[str]:
    """The command that runs a script, which is handed over as an argument.

    A first line ``#!interpreter arguments`` chooses the interpreter, else it is ``/bin/sh``. The rest of the
    text is passed on untouched.

    Args:
        script: the text, without blanks around it and not empty.

    Raises:
        ValueError: the first line names no interpreter, or one that takes no script as an argument.
    """
    if not script.startswith("#!"):
        return ["/bin/sh", "-c", script]
    first, _, rest = script.partition("\n")
    words = first[2:].split()
    if not words:
        raise ValueError("its first line '#!' names no interpreter; write '#!/bin/bash' or remove it")
    interpreter, arguments = words[0], words[1:]
    if interpreter.rsplit("/", 1)[-1] == "env":
        # "env -S" splits one argument into several; here they are separate already.
        arguments = [argument for argument in arguments if argument not in ("-S", "--split-string")]
        flag = _flag(_interpreter_of_env(arguments))
    else:
        flag = _flag(interpreter)
    return [interpreter, *arguments, flag, rest]


def _flag(interpreter: str) -> str:
    name = interpreter.rsplit("/", 1)[-1]
    if name in _SHELLS or _PYTHON.fullmatch(name):
        return "-c"
    if name in _EVAL:
        return "-e"
    raise ValueError(
        f"the interpreter {name!r} in its first line is not known to take a script as an argument; "
        "use a shell, python, perl, ruby or node, or call a script in the image"
    )


def _interpreter_of_env(arguments: list[str]) -> str:
    for argument in arguments:
        if not argument.startswith("-") and "=" not in argument:
            return argument
    raise ValueError("its first line calls env without naming an interpreter; write '#!/usr/bin/env bash'")
