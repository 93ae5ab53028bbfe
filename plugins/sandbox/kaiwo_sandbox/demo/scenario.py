"""The scenarios of the demo: workloads, and the states that each must reach.

Each workload is a file that is submitted unchanged. This module has only what is expected of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
JOBS = HERE / "jobs"
PLATFORM = HERE / "platform"
DOWNLOADS = HERE / "downloads"
COMPETING = HERE / "competing"
PLAIN = HERE / "plain"
EXTRA = HERE / "extra"
NODES = HERE / "cluster" / "nodes.yaml"
JOINING_NODE = HERE / "cluster" / "nvidia-node.yaml"
QUEUES = HERE / "cluster" / "queues.yaml"
CONFIG = HERE / "cluster" / "config.yaml"
REAL_JOBS = HERE / "real"
REAL_COMPETING = HERE / "real-competing"
REAL_QUEUES = HERE / "cluster" / "real-queues.yaml"

NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class ObservedStatus:
    """The status of a workload as read from the API server."""

    status: str = ""
    reason: str = ""
    message: str = ""
    started: str = ""


@dataclass(frozen=True, slots=True)
class ExpectedStatus:
    """A status that a workload must reach.

    Attributes:
        status: the status word.
        reasons: the allowed reasons; empty for any.
        text: a text that the reason or the message must contain.
    """

    status: str
    reasons: tuple[str, ...] = ()
    text: str = ""

    def matches(self, observed: ObservedStatus) -> bool:
        """Whether the workload has this status."""
        if observed.status != self.status or (self.reasons and observed.reason not in self.reasons):
            return False
        return self.text in f"{observed.reason} {observed.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoWorkload:
    """One workload of a scenario.

    Attributes:
        name: name of the workload in its file.
        requests: what it requests, in a few words.
        lesson: what the demo shows with it, one sentence.
        final: the status that it must end in.
        earlier: the status that must have been observed before.
        after: name of the workload that must have started before it.
        in_trouble: it ends in trouble, and the demo shows what `kaiwo why` says of it.
    """

    name: str
    requests: str
    lesson: str
    final: ExpectedStatus
    earlier: ExpectedStatus | None = None
    after: str = ""
    in_trouble: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A set of workloads and what they need.

    Attributes:
        summary: the workloads in a few words.
        workloads: in the order of the table.
        files: directories that are submitted at the beginning.
        competing: a directory that is submitted once the workload `holder` has left its queue.
        holder: name of the workload whose GPUs those in `competing` wait for.
        addons: addons of the sandbox.
        plugins: the plugins of the operator. Others are not loaded, because they may need other addons.
        queues: the file with the KaiwoQueueConfig.
        config: the file with the KaiwoConfig.
        downloads: a directory of workloads that download from the demo's servers.
        plain: a directory of batch/v1 Jobs that are created beside the files, and adopted.
        real_node: whether containers really run, on one node of this machine.
    """

    summary: str
    workloads: tuple[DemoWorkload, ...]
    files: tuple[Path, ...]
    competing: Path | None = None
    holder: str = ""
    addons: tuple[str, ...] = ()
    plugins: tuple[str, ...]
    queues: Path | None = None
    config: Path | None = None
    downloads: Path | None = None
    plain: Path | None = None
    real_node: bool = False


_TRAIN = DemoWorkload(
    name="train",
    requests="1 AMD GPU",
    lesson="One GPU, one image, one script: COMPLETE.",
    final=ExpectedStatus("COMPLETE"),
)
_SIXTEEN = DemoWorkload(
    name="sixteen-gpus",
    requests="16 AMD GPUs",
    lesson="No node has 16 GPUs: ERROR, with the number that fits.",
    final=ExpectedStatus("ERROR", ("GPUsExceedNode", "InsufficientGPUs"), "8"),
    in_trouble=True,
)
_EXITS = DemoWorkload(
    name="exits-3",
    requests="1 AMD GPU",
    lesson="The script exited with code 3: FAILED, and not restarted.",
    final=ExpectedStatus("FAILED", text="3"),
    in_trouble=True,
)
_IMAGE = DemoWorkload(
    name="image-typo",
    requests="1 AMD GPU",
    lesson="The image cannot be pulled (simulated): reported at once.",
    final=ExpectedStatus("STARTING", ("ImagePullBackOff", "ErrImagePull"), "image"),
    in_trouble=True,
)
_NVIDIA = DemoWorkload(
    name="needs-nvidia",
    requests="2 NVIDIA GPUs",
    lesson="No node of its vendor: it started when one joined.",
    earlier=ExpectedStatus("ERROR"),
    final=ExpectedStatus("COMPLETE"),
)
_CHAT = DemoWorkload(
    name="chat",
    requests="2 AMD, service",
    lesson="A service: READY, and it runs until it is deleted.",
    final=ExpectedStatus("READY"),
)
_RAY = DemoWorkload(
    name="ray-train",
    requests="8 AMD, research",
    lesson="On Ray (simulated): 4 GPUs of its queue, 4 borrowed.",
    final=ExpectedStatus("COMPLETE"),
)
_URGENT = DemoWorkload(
    name="urgent",
    requests="8 AMD, research",
    lesson="It waited for quota; its priority class put it first.",
    earlier=ExpectedStatus("PENDING", text="quota"),
    final=ExpectedStatus("COMPLETE"),
    after="ray-train",
)
_PATIENT = DemoWorkload(
    name="patient",
    requests="8 AMD, research",
    lesson="It waited for quota and ran when urgent had ended.",
    earlier=ExpectedStatus("PENDING", text="quota"),
    final=ExpectedStatus("COMPLETE"),
    after="urgent",
)
_OVERDUE = DemoWorkload(
    name="overdue",
    requests="1 AMD, evaluation",
    lesson="It ran past its duration: ended when deadline needed its GPU.",
    earlier=ExpectedStatus("RUNNING"),
    final=ExpectedStatus("TERMINATED", ("DurationExceeded",)),
)
_DEADLINE = DemoWorkload(
    name="deadline",
    requests="1 AMD, evaluation",
    lesson="It waited for quota and ran when overdue was ended for it.",
    earlier=ExpectedStatus("PENDING", text="quota"),
    final=ExpectedStatus("COMPLETE"),
    after="overdue",
)

_DATA = DemoWorkload(
    name="with-data",
    requests="1 AMD, data",
    lesson="32 MiB from S3 and code from git, downloaded without a GPU.",
    earlier=ExpectedStatus("PENDING", ("Downloading",)),
    final=ExpectedStatus("COMPLETE"),
)

_PLAIN = DemoWorkload(
    name="plain-job",
    requests="1 AMD, plain Job",
    lesson="A batch/v1 Job with Kaiwo's label: adopted, and shown here.",
    final=ExpectedStatus("COMPLETE"),
)

BARE = Scenario(
    summary="five jobs",
    workloads=(_TRAIN, _SIXTEEN, _EXITS, _IMAGE, _NVIDIA),
    files=(JOBS,),
    plugins=("batch_job", "gpu_amd", "gpu_nvidia"),
)
"""Kubernetes only: no queues, no services, no Ray."""

FULL = Scenario(
    summary="ten jobs, a service and a plain Kubernetes Job",
    workloads=(
        _TRAIN,
        _SIXTEEN,
        _EXITS,
        _IMAGE,
        _CHAT,
        _RAY,
        _PATIENT,
        _URGENT,
        _OVERDUE,
        _DEADLINE,
        _NVIDIA,
        _PLAIN,
    ),
    files=(JOBS, PLATFORM),
    plain=PLAIN,
    competing=COMPETING,
    holder="ray-train",
    addons=("kueue", "kuberay", "appwrapper"),
    plugins=(*BARE.plugins, "deployment", "kueue", "node_pools", "ray_job", "ray_service"),
    queues=QUEUES,
    config=CONFIG,
)
"""With queues, a service, Ray, a job past its duration, and a Job that is adopted."""

FULL_WITH_DOWNLOADS = replace(
    FULL,
    summary="eleven jobs, a service and a plain Kubernetes Job",
    workloads=(*FULL.workloads[:1], _DATA, *FULL.workloads[1:]),
    plugins=(*FULL.plugins, "storage_s3_gcs_azure_git_hf"),
    downloads=DOWNLOADS,
)
"""With a job whose data are downloaded first; only where the download program can run."""

_REAL_IMAGE = replace(_IMAGE, lesson="The image does not exist: reported at once.")
_FINETUNE = DemoWorkload(
    name="finetune",
    requests="4 AMD, research",
    lesson="2 GPUs of its queue, 2 borrowed.",
    final=ExpectedStatus("COMPLETE"),
)
_REAL_NVIDIA = replace(_NVIDIA, lesson="It started when a node of its vendor joined (simulated).")

REAL = replace(
    FULL,
    summary="eight jobs and a service",
    workloads=(
        _TRAIN,
        _SIXTEEN,
        _EXITS,
        _REAL_IMAGE,
        _CHAT,
        _FINETUNE,
        replace(_PATIENT, requests="4 AMD, research"),
        replace(_URGENT, requests="4 AMD, research", after="finetune"),
        _REAL_NVIDIA,
    ),
    files=(REAL_JOBS,),
    plain=None,
    competing=REAL_COMPETING,
    holder="finetune",
    addons=("kueue",),
    plugins=(*BARE.plugins, "deployment", "kueue", "node_pools"),
    queues=REAL_QUEUES,
    config=None,
    real_node=True,
)
"""Queues and a service, with containers that really run; without Ray, whose image has half a gigabyte."""
