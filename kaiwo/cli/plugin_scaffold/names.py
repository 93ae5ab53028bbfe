"""The names of a new plugin, all made from the one that its author gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

KINDS: Final = ("vendor", "source", "backend", "queue", "rule", "listener", "command")
"""What a plugin can be made for."""

MAX_LENGTH: Final = 30
"""Longest name: with what is added to it, every name that the templates make is still a legal one."""

_NAME: Final = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


class ScaffoldError(Exception):
    """A plugin cannot be written.

    Attributes:
        next_step: what to do about it.
    """

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class PluginNames:
    """The names of a plugin.

    Attributes:
        plugin: name of the plugin and of its entry point (``acme_hub``).
        dashed: the same with dashes, for what users write (``acme-hub``).
        distribution: name of the distribution (``kaiwo-acme-hub``).
        package: name of the import package (``kaiwo_acme_hub``).
        camel: for fields of workloads (``acmeHub``).
        pascal: for classes and kinds (``AcmeHub``).
        lower: for plural names of kinds (``acmehub``).
    """

    plugin: str
    dashed: str
    distribution: str
    package: str
    camel: str
    pascal: str
    lower: str

    @classmethod
    def of(cls, name: str) -> PluginNames:
        """The names that follow from the one an author gives, with dashes or underscores.

        Raises:
            ScaffoldError: it is not a valid name.
        """
        if not _NAME.fullmatch(name):
            raise ScaffoldError(
                f"name {name!r} is invalid, expected lower-case letters, digits and single dashes, "
                "with a letter first",
                f"for example {_suggestion(name)}",
            )
        words = re.split("[-_]", name)
        if words[0] == "kaiwo":
            raise ScaffoldError(
                f"name {name!r} begins with kaiwo, which is added by itself",
                f"use {'-'.join(words[1:]) or 'acme'}",
            )
        if len(name) > MAX_LENGTH:
            raise ScaffoldError(
                f"name {name!r} has {len(name)} characters, expected at most {MAX_LENGTH}",
                "choose a shorter name",
            )
        dashed, plugin = "-".join(words), "_".join(words)
        pascal = "".join(word.capitalize() for word in words)
        return cls(
            plugin=plugin,
            dashed=dashed,
            distribution=f"kaiwo-{dashed}",
            package=f"kaiwo_{plugin}",
            camel=pascal[0].lower() + pascal[1:],
            pascal=pascal,
            lower=pascal.lower(),
        )


def _suggestion(name: str) -> str:
    """The nearest valid name."""
    found = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_LENGTH].strip("-")
    return found if _NAME.fullmatch(found) else "acme"
