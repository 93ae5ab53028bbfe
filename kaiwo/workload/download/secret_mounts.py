"""The Secrets that a download pod sees: only the named keys, each where the download program reads it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kaiwo.api.download import SECRETS_PATH
from kaiwo.workload.errors import SpecError
from kaiwo.workload.metadata import MAX_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.sources import SecretReference

_USUAL, _APART = "secret-", "file-"
"""Prefixes of volumes: of keys at the usual place, and of keys with a file of their own."""


def volume_name(secret: str, prefix: str = _USUAL) -> str:
    """A legal volume name (RFC 1123 label) for any legal Secret name (a DNS subdomain), its own for each.

    A name that cannot be taken as it is carries a hash of the whole, so that ``a.b`` and ``a-b`` differ.
    """
    plain = prefix + secret.replace(".", "-")
    if "." not in secret and len(plain) <= MAX_LABEL:
        return plain
    digest = hashlib.sha256(secret.encode()).hexdigest()[:8]
    return f"{plain[: MAX_LABEL - len(digest) - 1].rstrip('-')}-{digest}"


def secret_mounts(
    references: Iterable[tuple[str, SecretReference]], taken: Mapping[str, str]
) -> tuple[list[Object], list[Object]]:
    """Volumes and mounts for the values that items refer to.

    Keys at the usual place share one read-only volume per Secret; one with a ``file`` of its own is mounted
    there alone. The same key at the same place is mounted once.

    Args:
        references: each with the path of the item that has it.
        taken: places in the pod where something else is mounted, with what it is.

    Raises:
        SpecError: a place is taken, or two values want the same one.
    """
    usual: dict[str, dict[str, None]] = {}
    apart: dict[str, dict[str, None]] = {}
    files: dict[str, tuple[SecretReference, str]] = {}
    for where, reference in references:
        if reference.file in ("", f"{SECRETS_PATH}/{reference.name}/{reference.key}"):
            usual.setdefault(reference.name, {})[reference.key] = None
            continue
        apart.setdefault(reference.name, {})[reference.key] = None
        same, _ = files.setdefault(reference.file, (reference, where))
        if same != reference:
            raise SpecError(
                where,
                f"file {reference.file} is where key {same.key} of Secret {same.name} goes; "
                "give each value a file of its own, or leave file out",
            )
    places = {f"{SECRETS_PATH}/{secret}": f"the keys of Secret {secret}" for secret in usual}
    for reference, where in files.values():
        _check(where, reference.file, taken, places)
    volumes = [
        *(_volume(secret, keys, _USUAL) for secret, keys in usual.items()),
        *(_volume(secret, keys, _APART) for secret, keys in apart.items()),
    ]
    mounts: list[Object] = [
        {"name": volume_name(secret), "mountPath": f"{SECRETS_PATH}/{secret}", "readOnly": True}
        for secret in usual
    ]
    mounts += [
        {"name": volume_name(item.name, _APART), "mountPath": file, "subPath": item.key, "readOnly": True}
        for file, (item, _) in files.items()
    ]
    return volumes, mounts


def _volume(secret: str, keys: Iterable[str], prefix: str) -> Object:
    items = [{"key": key, "path": key} for key in keys]
    return {"name": volume_name(secret, prefix), "secret": {"secretName": secret, "items": items}}


def _check(where: str, file: str, taken: Mapping[str, str], secrets: Mapping[str, str]) -> None:
    """Refuse a file that would hide, or lie in, what is mounted already."""
    if not file.startswith("/") or ".." in file.split("/") or file.endswith("/") or ":" in file:
        raise SpecError(
            where, f"file {file!r} is not an absolute path of a file; correct it, or leave it out"
        )
    what = "its Secrets" if file == SECRETS_PATH else ""
    if file.startswith(f"{SECRETS_PATH}/"):
        secret, _, _ = file.removeprefix(f"{SECRETS_PATH}/").partition("/")
        what = secrets.get(f"{SECRETS_PATH}/{secret}", "")
    for place, other in taken.items():
        if file == place or file.startswith(f"{place.rstrip('/')}/"):
            what = what or other
    if what:
        raise SpecError(
            where, f"file {file} lies where the download pod has {what}; choose another, or leave it out"
        )
