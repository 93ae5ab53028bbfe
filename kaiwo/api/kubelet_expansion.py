"""What a kubelet changes in a command and in values of variables before it runs a container.

It replaces ``$(NAME)`` by the variable of that name, whatever quotes stand around it, and ``$$`` by ``$``
(``k8s.io/kubernetes/third_party/forked/golang/expansion``). A reference to no variable is passed on as it is.
"""

from __future__ import annotations

import re

_DOLLARS = re.compile(r"\$+")


def literal(text: str) -> str:
    """The text that a kubelet turns into this one, whichever variables there are."""

    def doubled(match: re.Match[str]) -> str:
        run = match.group()
        return run * 2 if len(run) > 1 or text[match.end() : match.end() + 1] == "(" else run

    return _DOLLARS.sub(doubled, text)


def halved_dollars(script: str) -> int | None:
    """The first line with a ``$$`` of which a kubelet makes ``$``, counted from 1; None without one.

    A shell writes its process ID for ``$$``. Who writes ``$$$$`` or ``$$(NAME)`` knows of the kubelet.
    """
    position, last = 0, script.rfind(")")
    while found := _DOLLARS.search(script, position):
        position, run = found.end(), found.group()
        opens = script[position : position + 1] == "("
        if run == "$$$" or (run == "$$" and not opens):
            return script.count("\n", 0, found.start()) + 1
        if opens and len(run) % 2 and position < last:
            # A whole reference is passed on with everything in it.
            position = script.index(")", position) + 1
    return None
