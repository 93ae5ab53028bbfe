"""The list of plugins that may be imported: process configuration of administrators with a review.

Without a list every selected plugin may be imported. With one, a plugin that it does not have is not imported
at all. An entry names the plugin and its distribution, and may limit the version and pin the files::

    acme@kaiwo-acme
    acme@kaiwo-acme>=1.2,<2
    acme@kaiwo-acme==1.2.3#sha256=<64 hexadecimal digits>

docs/decisions/plugin-allow-list.md says what it protects against and what not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kaiwo.plugin.selection import ALLOWED_VARIABLE, AllowedPlugin
from kaiwo.plugin.targets import find_module

if TYPE_CHECKING:
    from collections.abc import Iterable

    from importlib_metadata import Distribution

    from kaiwo.plugin.discovery import Candidate

_SHOWN = 12
"""Digits of a digest in messages."""


def refusal(candidate: Candidate, allowed: Iterable[AllowedPlugin]) -> str:
    """Why an installed plugin may not be imported; empty if it may. Reads its files where they are pinned."""
    own = [entry for entry in allowed if entry.name == candidate.name]
    if not own:
        return f"not in {ALLOWED_VARIABLE}"
    named = [entry for entry in own if entry.names(candidate.distribution)]
    if not named:
        return f"{ALLOWED_VARIABLE} has {_without_digest(own)}, and this is of {candidate.distribution}"
    fitting = [entry for entry in named if entry.takes(candidate.version)]
    if not fitting:
        listed = _without_digest(named)
        return f"{ALLOWED_VARIABLE} has {listed}, and version {candidate.version} is installed"
    return _files_differ(candidate, fitting)


def allows_distribution(distribution: str, version: str, allowed: Iterable[AllowedPlugin]) -> bool:
    """Whether modules of an installed distribution may be imported that are no plugins themselves."""
    return any(
        entry.names(distribution)
        and entry.takes(version)
        and not (entry.sha256 and _digest_problem(_installed(distribution), {entry.sha256}))
        for entry in allowed
    )


def entry_of(candidate: Candidate) -> tuple[AllowedPlugin, str]:
    """The entry that allows exactly what is installed, and why it has no digest where it has none."""
    from kaiwo.plugin.file_digest import NoDigestError, installed_digest

    versions = f"=={candidate.version}" if candidate.version else ""
    entry = AllowedPlugin(candidate.name, candidate.distribution, versions)
    distribution = _installed(candidate.distribution)
    if distribution is None:
        return entry, f"{candidate.distribution} has no metadata; install a wheel of it"
    try:
        sha256 = installed_digest(distribution)
    except NoDigestError as error:
        return entry, f"{candidate.distribution} {error}"
    return AllowedPlugin(entry.name, entry.distribution, entry.versions, sha256), ""


def _without_digest(entries: Iterable[AllowedPlugin]) -> str:
    return " or ".join(f"{entry.name}@{entry.distribution}{entry.versions}" for entry in entries)


def _files_differ(candidate: Candidate, entries: Iterable[AllowedPlugin]) -> str:
    """Why the files are not those that an entry allows."""
    distribution = _installed(candidate.distribution)
    if distribution is not None and (problem := _foreign_module(candidate, distribution)):
        return problem
    pins = {entry.sha256 for entry in entries}
    return "" if "" in pins else _digest_problem(distribution, pins)


def _digest_problem(distribution: Distribution | None, pins: set[str]) -> str:
    from kaiwo.plugin.file_digest import NoDigestError, installed_digest

    if distribution is None:
        return "its files cannot be compared with the pinned digest; it has no metadata"
    try:
        found = installed_digest(distribution)
    except NoDigestError as error:
        return f"its files cannot be compared with the pinned digest; {distribution.name} {error}"
    if found in pins:
        return ""
    pinned = " or ".join(sorted(pin[:_SHOWN] for pin in pins))
    return (
        f"the files of {distribution.name} {distribution.version} have digest {found[:_SHOWN]}, and "
        f"{ALLOWED_VARIABLE} has {pinned}; install what was reviewed, or review this and change the list"
    )


def _foreign_module(candidate: Candidate, distribution: Distribution) -> str:
    """Whether another distribution's file would be imported under the plugin's module name."""
    from kaiwo.plugin.file_digest import is_editable

    files = distribution.files
    spec = find_module(candidate.module)
    if not files or is_editable(distribution) or spec is None or not spec.origin:
        return ""
    origin = os.path.realpath(spec.origin)
    if any(os.path.realpath(str(distribution.locate_file(file))) == origin for file in files):
        return ""
    return f"module {candidate.module} would be imported from {origin}, which is not of {distribution.name}"


def _installed(name: str) -> Distribution | None:
    import importlib_metadata

    try:
        return next(iter(importlib_metadata.Distribution.discover(name=name)), None)
    except ValueError:
        return None
