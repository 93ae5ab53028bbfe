"""What the demo tells: five workloads and how each must end.

Each chapter is a real file in ``jobs/``, submitted as it is; the demo only knows what to expect of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.resource import Object

HERE = Path(__file__).parent
JOBS = HERE / "jobs"
NODES = HERE / "cluster" / "nodes.yaml"
JOINING_NODE = HERE / "cluster" / "nvidia-node.yaml"

NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Chapter:
    """One workload of the story.

    Attributes:
        name: name of the KaiwoJob in its file.
        asks: what it asks for, in a few words.
        lesson: what a reader should take away, one sentence.
        status: the status word it must reach.
        reasons: reasons that its end may have; empty for any.
        says: a text that the reason or the message must contain.
        heals: it must be ERROR first, and reach `status` only after the node has joined.
    """

    name: str
    asks: str
    lesson: str
    status: str
    reasons: tuple[str, ...] = ()
    says: str = ""
    heals: bool = False

    def ended(self, now: Look) -> bool:
        """Whether it is where its story ends."""
        if now.status != self.status or (self.reasons and now.reason not in self.reasons):
            return False
        return self.says in f"{now.reason} {now.message}"


@dataclass(frozen=True, slots=True)
class Look:
    """What the API server says of a workload at one moment."""

    status: str = ""
    reason: str = ""
    message: str = ""

    @classmethod
    def of(cls, obj: Object) -> Look:
        """Read it from a KaiwoJob."""
        status = obj.get("status") or {}
        return cls(*(str(status.get(key) or "") for key in ("status", "reason", "message")))


CHAPTERS = (
    Chapter(
        name="train",
        asks="1 AMD GPU",
        lesson="One GPU, one image, one script: it ran to COMPLETE.",
        status="COMPLETE",
    ),
    Chapter(
        name="sixteen-gpus",
        asks="16 AMD GPUs",
        lesson="No node has 16 GPUs: it says so, and which count would fit.",
        status="ERROR",
        reasons=("GPUsExceedNode", "InsufficientGPUs"),
        says="8",
    ),
    Chapter(
        name="exits-3",
        asks="1 AMD GPU",
        lesson="Its script ended with exit code 3: FAILED, and not run again.",
        status="FAILED",
        says="3",
    ),
    Chapter(
        name="image-typo",
        asks="1 AMD GPU",
        lesson="Its image cannot be pulled (simulated): it says so at once.",
        status="STARTING",
        reasons=("ImagePullBackOff", "ErrImagePull"),
        says="image",
    ),
    Chapter(
        name="needs-nvidia",
        asks="2 NVIDIA GPUs",
        lesson="It waited for a node of its vendor, and ran once one joined.",
        status="COMPLETE",
        heals=True,
    ),
)


class Story:
    """Follows the workloads and knows when it is over."""

    def __init__(self) -> None:
        self.looks: dict[str, Look] = {chapter.name: Look() for chapter in CHAPTERS}
        self._refused: set[str] = set()
        self.node_joined = False

    def see(self, objects: Iterable[Object]) -> list[Chapter]:
        """Take in the current KaiwoJobs; the chapters that changed."""
        now = {obj["metadata"]["name"]: Look.of(obj) for obj in objects}
        changed = []
        for chapter in CHAPTERS:
            look = now.get(chapter.name, Look())
            if look != self.looks[chapter.name]:
                self.looks[chapter.name] = look
                changed.append(chapter)
            if look.status == "ERROR" and not self.node_joined:
                self._refused.add(chapter.name)
        return changed

    def as_told(self, chapter: Chapter) -> bool:
        """Whether a workload has reached its end in the way that the story says."""
        if chapter.heals and chapter.name not in self._refused:
            return False
        return chapter.ended(self.looks[chapter.name])

    def node_may_join(self) -> bool:
        """The second act: everything else has ended, and what waits for the node has said so."""
        if self.node_joined:
            return False
        return all(
            chapter.name in self._refused if chapter.heals else self.as_told(chapter) for chapter in CHAPTERS
        )

    def over(self) -> bool:
        """Whether every workload is where its story ends."""
        return all(self.as_told(chapter) for chapter in CHAPTERS)
