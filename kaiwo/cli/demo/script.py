"""What the demo tells: workloads, and how each must end.

Each chapter is a real file, submitted as it is; the demo only knows what to expect of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
JOBS = HERE / "jobs"
PLATFORM = HERE / "platform"
DOWNLOADS = HERE / "downloads"
RIVALS = HERE / "rivals"
MORE = HERE / "more"
NODES = HERE / "cluster" / "nodes.yaml"
JOINING_NODE = HERE / "cluster" / "nvidia-node.yaml"
QUEUES = HERE / "cluster" / "queues.yaml"

NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Look:
    """What the API server says of a workload at one moment."""

    status: str = ""
    reason: str = ""
    message: str = ""
    started: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """A state that a workload must come to.

    Attributes:
        status: the status word.
        reasons: reasons that it may have; empty for any.
        says: a text that the reason or the message must contain.
    """

    status: str
    reasons: tuple[str, ...] = ()
    says: str = ""

    def is_in(self, now: Look) -> bool:
        """Whether the workload is in this state."""
        if now.status != self.status or (self.reasons and now.reason not in self.reasons):
            return False
        return self.says in f"{now.reason} {now.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One workload of the story.

    Attributes:
        name: name of the workload in its file.
        asks: what it asks for, in a few words.
        lesson: what a reader should take away, one sentence.
        end: where its story ends.
        first: what must have been seen of it before.
        after: the workload that must have started before it.
    """

    name: str
    asks: str
    lesson: str
    end: Moment
    first: Moment | None = None
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A whole story, and what it needs.

    Attributes:
        cast: what comes on, in a few words.
        chapters: in the order in which they are shown.
        files: directories that are submitted at the beginning.
        later: a directory that is submitted once the workload `holder` is past its queue.
        holder: the workload that holds what those in `later` must wait for.
        addons: controllers that the control plane runs besides Kubernetes' own.
        plugins: what the story needs, and no more: another plugin may ask for what is not there.
        queues: the file that describes the queues.
        downloads: a directory of workloads that download what the demo serves.
    """

    cast: str
    chapters: tuple[Chapter, ...]
    files: tuple[Path, ...]
    later: Path | None = None
    holder: str = ""
    addons: tuple[str, ...] = ()
    plugins: tuple[str, ...]
    queues: Path | None = None
    downloads: Path | None = None


_TRAIN = Chapter(
    name="train",
    asks="1 AMD GPU",
    lesson="One GPU, one image, one script: it ran to COMPLETE.",
    end=Moment("COMPLETE"),
)
_SIXTEEN = Chapter(
    name="sixteen-gpus",
    asks="16 AMD GPUs",
    lesson="No node has 16 GPUs: it says so, and which count would fit.",
    end=Moment("ERROR", ("GPUsExceedNode", "InsufficientGPUs"), "8"),
)
_EXITS = Chapter(
    name="exits-3",
    asks="1 AMD GPU",
    lesson="Its script ended with exit code 3: FAILED, and not run again.",
    end=Moment("FAILED", says="3"),
)
_IMAGE = Chapter(
    name="image-typo",
    asks="1 AMD GPU",
    lesson="Its image cannot be pulled (simulated): it says so at once.",
    end=Moment("STARTING", ("ImagePullBackOff", "ErrImagePull"), "image"),
)
_NVIDIA = Chapter(
    name="needs-nvidia",
    asks="2 NVIDIA GPUs",
    lesson="It waited for a node of its vendor, and ran once one joined.",
    first=Moment("ERROR"),
    end=Moment("COMPLETE"),
)
_CHAT = Chapter(
    name="chat",
    asks="2 AMD, service",
    lesson="A service: READY, and it stays so until somebody deletes it.",
    end=Moment("READY"),
)
_RAY = Chapter(
    name="ray-train",
    asks="8 AMD, research",
    lesson="On Ray: 4 GPUs of its queue, 4 borrowed (its end is simulated).",
    end=Moment("COMPLETE"),
)
_URGENT = Chapter(
    name="urgent",
    asks="8 AMD, research",
    lesson="It waited for quota; by its priority class it went first.",
    first=Moment("PENDING", says="quota"),
    end=Moment("COMPLETE"),
    after="ray-train",
)
_PATIENT = Chapter(
    name="patient",
    asks="8 AMD, research",
    lesson="It said what it waited for, and ran when urgent had ended.",
    first=Moment("PENDING", says="quota"),
    end=Moment("COMPLETE"),
    after="urgent",
)

_DATA = Chapter(
    name="with-data",
    asks="1 AMD, data",
    lesson="32 MiB from S3 and code from git came first, and took no GPU.",
    first=Moment("PENDING", ("Downloading",)),
    end=Moment("COMPLETE"),
)

BARE = Script(
    cast="five jobs",
    chapters=(_TRAIN, _SIXTEEN, _EXITS, _IMAGE, _NVIDIA),
    files=(JOBS,),
    plugins=("batch_job", "gpu_amd", "gpu_nvidia"),
)
"""Kubernetes alone: no queues, no Ray."""

WHOLE = Script(
    cast="eight jobs and a service",
    chapters=(_TRAIN, _SIXTEEN, _EXITS, _IMAGE, _CHAT, _RAY, _PATIENT, _URGENT, _NVIDIA),
    files=(JOBS, PLATFORM),
    later=RIVALS,
    holder="ray-train",
    addons=("kueue", "kuberay", "appwrapper"),
    plugins=(*BARE.plugins, "deployment", "kueue", "node_pools", "ray_job", "ray_service"),
    queues=QUEUES,
)
"""The whole platform: queues, services, Ray."""

FETCHING = replace(
    WHOLE,
    cast="nine jobs and a service",
    chapters=(*WHOLE.chapters[:1], _DATA, *WHOLE.chapters[1:]),
    plugins=(*WHOLE.plugins, "storage_s3_gcs_azure_git_hf"),
    downloads=DOWNLOADS,
)
"""The same with a job whose data are downloaded first, where the download program can run."""
