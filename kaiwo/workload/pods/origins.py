"""Where each value of a rendered object came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.rendering import Origin


class Origins:
    """A record that grows while an object is rendered; the last note for a path stays.

    Deciding code speaks of paths as the user writes them, below the workload's ``spec``; the record holds
    paths of the rendered object.
    """

    __slots__ = ("_notes", "_prefix")

    def __init__(self, prefix: str = "") -> None:
        """Make an empty record.

        Args:
            prefix: where the rendered object is embedded in the workload (``spec.job.``); cut from paths.
        """
        self._notes: dict[str, tuple[Origin, str]] = {}
        self._prefix = prefix

    def note(self, path: str, origin: Origin, words: str) -> None:
        """Say where the value at a JSON path came from.

        Args:
            path: path as the user would write it (``spec.job.spec.backoffLimit``).
            origin: the kind of source.
            words: which field, setting or plugin.
        """
        self._notes[path.removeprefix(self._prefix)] = (origin, words)

    def origin(self, path: str) -> Origin | None:
        """The kind of source of the value at a path, as the user would write it; None if it was not noted."""
        origin, _ = self._notes.get(path.removeprefix(self._prefix), (None, ""))
        return origin

    def known(self) -> Mapping[str, tuple[Origin, str]]:
        """All notes by path."""
        return self._notes
