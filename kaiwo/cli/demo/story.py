"""Follows the workloads of a script on their way to their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli.demo.script import Look

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.cli.demo.script import Chapter, Script
    from kaiwo.engine.resource import Object


class DemoRun:
    """Knows what was seen so far, what may come next, and when it is over.

    Attributes:
        looks: the state of each workload when it was last seen.
        node_joined: whether the demo has added its node.
        rivals_came: whether what the script submits later has been submitted.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.looks: dict[str, Look] = {chapter.name: Look() for chapter in script.chapters}
        self._waited: set[str] = set()
        self.node_joined = False
        self.rivals_came = script.later is None

    def see(self, objects: Iterable[Object]) -> list[Chapter]:
        """Take in the current workloads; the chapters that changed."""
        now = {obj["metadata"]["name"]: _look(obj) for obj in objects}
        changed = []
        for chapter in self.script.chapters:
            look = now.get(chapter.name, Look())
            if look != self.looks[chapter.name]:
                self.looks[chapter.name] = look
                changed.append(chapter)
            if chapter.first and chapter.first.is_in(look):
                self._waited.add(chapter.name)
        return changed

    def waited(self, chapter: Chapter) -> bool:
        """Whether what must come before its end was seen; also when nothing must."""
        return chapter.first is None or chapter.name in self._waited

    def as_told(self, chapter: Chapter) -> bool:
        """Whether a workload has reached its end in the way that the script says."""
        if not (self.waited(chapter) and chapter.end.is_in(self.looks[chapter.name])):
            return False
        if not chapter.after:
            return True
        # Times of one cluster in one form, so their texts are in the order of the times.
        earlier, later = self.looks[chapter.after].started, self.looks[chapter.name].started
        return bool(earlier) and earlier < later

    def missing(self, chapter: Chapter) -> str:
        """In which way a workload has not come to its end, one sentence."""
        look = self.looks[chapter.name]
        found = ", ".join(part for part in (look.status or "no status", look.reason, look.message) if part)
        if not chapter.end.is_in(look):
            return f"It should have become {chapter.end.status}; it is: {found}"
        if chapter.first and not self.waited(chapter):
            return f"It should have been {chapter.first.status} first, and was never seen so; it is: {found}"
        return f"It should have started after {chapter.after}; it is: {found}"

    def rivals_may_come(self) -> bool:
        """Whether the workload that must hold the GPUs first has them."""
        return not self.rivals_came and self.looks[self.script.holder].status not in ("", "PENDING")

    def node_may_join(self) -> bool:
        """The last act: what had nothing to wait for has ended, and the others were seen waiting."""
        if self.node_joined:
            return False
        return all(
            self.waited(chapter) if chapter.first else self.as_told(chapter)
            for chapter in self.script.chapters
        )

    def over(self) -> bool:
        """Whether every workload is where its story ends."""
        return all(self.as_told(chapter) for chapter in self.script.chapters)


def _look(obj: Object) -> Look:
    status = obj.get("status") or {}
    return Look(*(str(status.get(key) or "") for key in ("status", "reason", "message", "startTime")))
