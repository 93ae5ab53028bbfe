"""Impersonation: the headers by which a request is made as another user, as kubectl sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kaiwo.engine.errors import CredentialsError

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

_NAME_CHARACTERS = "!#$&'*+-.^_`|~"
"""Characters of a header's name beside letters and digits (RFC 9110), without the percent sign."""


def impersonation_headers(user: Object, where: str) -> tuple[tuple[str, str], ...]:
    """The headers for ``as``, ``as-uid``, ``as-groups`` and ``as-user-extra`` of a kubeconfig's user.

    Args:
        user: the ``user`` section.
        where: for messages.

    Raises:
        CredentialsError: a field of another type, a value that no header can have, or groups, uid or extra
            values without a user. Leaving one of them out would act with other rights than were meant.
    """
    name = _text(user.get("as"), "as", where)
    uid = _text(user.get("as-uid"), "as-uid", where)
    groups = _texts(user.get("as-groups"), "as-groups", where)
    extra = user.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise CredentialsError(f"{where}: user.as-user-extra: expected a mapping of lists of strings")
    headers = [("Impersonate-User", name)] if name else []
    headers += [("Impersonate-Uid", uid)] if uid else []
    headers += [("Impersonate-Group", group) for group in groups]
    for key, values in extra.items():
        header = f"Impersonate-Extra-{quote(str(key), safe=_NAME_CHARACTERS)}"
        headers += [(header, value) for value in _texts(values, f"as-user-extra.{key}", where)]
    if headers and not name:
        raise CredentialsError(
            f"{where}: user.as is not set, but user.as-groups, as-uid or as-user-extra is; add user.as"
        )
    return tuple(headers)


def _text(value: Any, field: str, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or any(character in value for character in "\r\n\0"):
        raise CredentialsError(f"{where}: user.{field}: expected a string of one line")
    return value


def _texts(value: Any, field: str, where: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise CredentialsError(f"{where}: user.{field}: expected a list of strings")
    return [_text(item, field, where) for item in value]
