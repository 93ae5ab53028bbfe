"""Which files of a folder are not shipped: patterns as in ``.gitignore``, and names that secrets have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECRET_NAMES = (
    ".env",
    ".env.*",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    "kubeconfig",
    "*.kubeconfig",
    "credentials.json",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    "application_default_credentials.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
)
_SECRET_PATHS = (
    ".aws/credentials",
    ".docker/config.json",
    ".kube/config",
    ".config/gcloud/*",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".azure/*",
    ".gnupg/*",
)
_SECRET_FOLDERS = (".ssh", ".gnupg", ".azure")
_HARMLESS = (".env.example", ".env.sample", ".env.template", ".env.dist")

_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----")


def secret_name(path: str) -> bool:
    """Whether files of this name usually hold a secret.

    Args:
        path: relative to the folder, with slashes.
    """
    lower = path.lower()
    *folders, name = lower.split("/")
    if name in _HARMLESS:
        return False
    return (
        any(fnmatchcase(name, pattern) for pattern in _SECRET_NAMES)
        or any(fnmatchcase(f"/{lower}", f"*/{pattern}") for pattern in _SECRET_PATHS)
        or any(folder in _SECRET_FOLDERS for folder in folders)
    )


def private_key(content: bytes) -> bool:
    """Whether a file is a private key, whatever its name."""
    start = content[:4096].lstrip()
    return start.startswith(b"-----BEGIN ") and _PRIVATE_KEY.search(start) is not None


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One line of an ignore file.

    Attributes:
        regex: matches a whole path.
        negated: whether it takes back what an earlier line ignores.
        folders_only: whether it means folders alone.
    """

    regex: re.Pattern[str]
    negated: bool
    folders_only: bool


class IgnoreRules:
    """The lines of an ignore file, with the meaning that git gives them; the last that matches counts.

    A file below an ignored folder is ignored whatever else matches, as in git.
    """

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._patterns = [pattern for line in lines if (pattern := _parse(line)) is not None]

    def ignored(self, path: str, *, folder: bool = False) -> bool:
        """Whether a path, or a folder above it, is ignored."""
        parts = path.split("/")
        for end in range(1, len(parts)):
            if self._last("/".join(parts[:end]), folder=True) is True:
                return True
        return self._last(path, folder=folder) is True

    def included(self, path: str) -> bool:
        """Whether a line with ``!`` asks for this file."""
        return self._last(path, folder=False) is False

    def _last(self, path: str, *, folder: bool) -> bool | None:
        """What the last line that matches says; None when none does."""
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders_only) and pattern.regex.fullmatch(_bytewise(path)):
                return not pattern.negated
        return None


def _parse(line: str) -> _Pattern | None:
    text = _without_trailing_blanks(line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text.removeprefix("!") if negated else text
    folders_only = text.endswith("/")
    text = text.removesuffix("/") if folders_only else text
    if not text:
        return None
    anchored = "/" in text
    expression = _expression(_bytewise(text.removeprefix("/")), anchored=anchored)
    if expression is None:
        return None
    prefix = "" if anchored else "(?:.*/)?"
    return _Pattern(re.compile(prefix + expression, re.DOTALL | re.ASCII), negated, folders_only)


def _bytewise(text: str) -> str:
    """One character for each byte of a name: git compares bytes, so that ``?`` is half an umlaut."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _without_trailing_blanks(text: str) -> str:
    """Trailing blanks do not count unless a backslash stands before them."""
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    return text


def _expression(text: str, *, anchored: bool) -> str | None:
    """A pattern as a regular expression for a path without its leading slash; None if it never matches."""
    literal = _LITERAL.match(text) if anchored else None
    begin = literal.end() if literal else 0
    found, position = "", 0
    while position < len(text):
        part, position = _next_part(text, position, begin)
        if part is None:
            return None
        found += part
    return found


def _next_part(text: str, position: int, begin: int) -> tuple[str | None, int]:
    """One element of a pattern as a regular expression, and where the next one starts."""
    char = text[position]
    if char == "*":
        return _stars(text, position, begin)
    if char == "?":
        return "[^/]", position + 1
    if char == "[":
        return _group(text, position)
    if char == "\\":
        following = text[position + 1 : position + 2]
        return (re.escape(following) if following else None), position + 2
    return re.escape(char), position + 1


def _stars(text: str, position: int, begin: int) -> tuple[str, int]:
    """Two stars or more that begin a part of the path, and fill it, stand for any number of folders.

    Git compares what stands before the first wildcard by itself. So `begin`, where that ends, is the begin of
    a part to git, as in ``a**/b``.
    """
    end = position
    while text[end : end + 1] == "*":
        end += 1
    at_part = position == 0 or text[position - 1] == "/"
    if end - position > 1 and (at_part or position == begin):
        if text[end : end + 1] == "/":
            return "(?:.*/)?", end + 1
        if text.startswith("\\/", end):
            return ".*", end  # one folder at least
        if end == len(text):
            return ".+" if at_part else ".*", end
    return "[^/]*", end


def _group(text: str, start: int) -> tuple[str | None, int]:
    """A bracket expression as a regular expression, and where it ends; None when it does not end."""
    position = start + 1
    negated = position < len(text) and text[position] in "!^"
    position += negated
    members = ""
    first = True
    while position < len(text) and (first or text[position] != "]"):
        first = False
        named = re.match(r"\[:([a-z]+):\]", text[position:])
        if named:
            if named[1] not in _CLASSES:
                return None, position
            members, position = members + _CLASSES[named[1]], position + named.end()
            continue
        low, position = _member(text, position)
        if text[position : position + 1] == "-" and text[position + 1 : position + 2] not in ("", "]"):
            high, position = _member(text, position + 1)
            if low and high and low <= high:
                members += f"{re.escape(low)}-{re.escape(high)}"
        elif low:
            members += re.escape(low)
    if position >= len(text):
        return None, position
    if not members:
        return ("[^/]" if negated else "(?!)"), position + 1
    return (f"(?!/)[^{members}]" if negated else f"(?!/)[{members}]"), position + 1


def _member(text: str, position: int) -> tuple[str, int]:
    if text[position] == "\\" and position + 1 < len(text):
        position += 1
    return text[position], position + 1


_LITERAL = re.compile(r"[^*?\[\\]*")
"""What git compares byte by byte at the begin of a pattern with a slash (``nowildcardlen``)."""

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
