"""Sixty slips of first users: each is met before anything is sent, with its cause and the next step.

Slips that only an API server can see are in ``tests/cluster/test_slips.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from kaiwo.cli.failures import FAILED, OK, USAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""

HEAD = "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoJob\nmetadata:\n  name: train\n"
SERVICE = HEAD.replace("KaiwoJob", "KaiwoService").replace("train", "chat")
CHECK = ("submit", "--dry-run=client", "-f", "job.yaml")
NODES = """\
apiVersion: v1
kind: Node
metadata: {name: gpu-1, labels: {kubernetes.io/hostname: gpu-1}}
status:
  allocatable: {amd.com/gpu: "8", cpu: "128", memory: 1Ti}
  conditions: [{type: Ready, status: "True"}]
"""


def spec(lines: str, head: str = HEAD) -> str:
    """A manifest whose spec has these lines, each indented by two blanks."""
    return head + "spec:\n" + "".join(f"  {line}\n" for line in lines.splitlines())


@dataclass(frozen=True)
class Slip:
    """What a user did, and what the answer must hold.

    Attributes:
        name: the slip in a few words.
        text: content of job.yaml; None for no such file.
        says: parts of what is written to standard error.
        code: exit code.
        args: the command line.
        files: further files of the working directory.
        stdin: standard input.
        environment: variables of the process.
    """

    name: str
    text: str | bytes | None
    says: tuple[str, ...]
    code: int = USAGE
    args: tuple[str, ...] = CHECK
    files: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)


FIELDS = (
    Slip("gpu for gpus", spec("gpu: 1"), ("job.yaml:6:3: spec.gpu: unknown field", '"gpus"')),
    Slip("command", spec("command: python a.py"), ("spec.command: unknown field", "spec.entrypoint")),
    Slip("args", spec("args: [a]"), ("spec.args: unknown field", "spec.entrypoint")),
    Slip("queue", spec("queue: team-a"), ("spec.queue: unknown field", "spec.clusterQueue", "--queue")),
    Slip("memory", spec("memory: 64Gi"), ("spec.memory: unknown field", "spec.resources.limits.memory")),
    Slip("cpu", spec("cpu: 8"), ("spec.cpu: unknown field", "spec.resources.limits.cpu")),
    Slip("volumes", spec("volumes: []"), ("spec.volumes: unknown field", "spec.storage.data")),
    Slip("nodes", spec("nodes: 2"), ("spec.nodes: unknown field", "spec.replicas")),
    Slip("snake case", spec("gpus_per_replica: 1"), ("spec.gpus_per_replica", '"gpusPerReplica"')),
    Slip(
        "a field beside spec",
        HEAD + "spec: {}\nimage: a/b:1\n",
        ("job.yaml:6:1: image: unknown field", "spec.image", "indent it"),
    ),
    Slip(
        "a field in metadata",
        HEAD + "  gpus: 2\nspec: {}\n",
        ("metadata.gpus: unknown field", "spec.gpus"),
    ),
    Slip("a name in spec", spec("name: train"), ("spec.name: unknown field", "metadata.name")),
    Slip(
        "a namespace in spec", spec("namespace: a"), ("spec.namespace: unknown field", "metadata.namespace")
    ),
    Slip(
        "a field of storage in spec",
        spec("storageClassName: fast"),
        ("spec.storageClassName: unknown field", "spec.storage.storageClassName"),
    ),
    Slip(
        "a size in storage",
        spec("storage:\n  storageEnabled: true\n  storageSize: 1Gi"),
        ("spec.storage.storageSize: unknown field", "spec.storage.data.storageSize"),
    ),
    Slip(
        "resources without limits",
        spec("resources:\n  memory: 64Gi"),
        ("spec.resources.memory: unknown field", "spec.resources.limits.memory"),
    ),
    Slip(
        "a field too low",
        spec("resources:\n  limits: {cpu: 1}\n  image: a/b:1"),
        ("spec.resources.image: unknown field", "spec.image"),
    ),
    Slip(
        "name missing",
        "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoJob\nmetadata: {}\nspec: {}\n",
        ("metadata.name: is required",),
    ),
    Slip(
        "a name with capitals",
        spec("gpus: 1", HEAD.replace("train", "My_Train")),
        ("metadata.name", "lower-case"),
    ),
    Slip(
        "kind misspelt",
        spec("gpus: 1", HEAD.replace("KaiwoJob", "KaiwoJbo")),
        ('kind: unknown kind "KaiwoJbo" (known: KaiwoJob, KaiwoService)', '"KaiwoJob"'),
    ),
    Slip(
        "a Job of Kubernetes",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n",
        ('Job "a" (batch/v1) is not a Kaiwo workload', "kubectl apply --server-side -f job.yaml"),
    ),
    Slip(
        "no apiVersion",
        "kind: KaiwoJob\nmetadata: {name: a}\n",
        ("apiVersion: is required", "kaiwo.silogen.ai/v1alpha1"),
    ),
)

VALUES = (
    Slip(
        "a number in quotes", spec('gpus: "2"'), ('spec.gpus: expected a whole number, got the string "2"',)
    ),
    Slip("a negative number", spec("gpus: -1"), ("spec.gpus: -1 is less than 0",)),
    Slip("half a GPU", spec("gpus: 0.5"), ("spec.gpus: expected a whole number, got the number 0.5",)),
    Slip("a duration without a unit", spec("duration: 12"), ("spec.duration", 'write "12s" or "12m"')),
    Slip("a duration in days", spec("duration: 2d"), ("spec.duration", "48h")),
    Slip(
        "memory in GB",
        spec("resources:\n  limits:\n    memory: 64GB"),
        ("spec.resources.limits.memory", '"64G"', '"64Gi"'),
    ),
    Slip(
        "memory with a blank",
        spec("resources:\n  limits:\n    memory: 64 Gi"),
        ("spec.resources.limits.memory", '"64Gi"'),
    ),
    Slip(
        "memory without a unit",
        spec("resources:\n  limits:\n    memory: 64"),
        ("warning: job.yaml:8:7: spec.resources.limits.memory: 64 is 64 bytes", '"64Gi"'),
        OK,
    ),
    Slip(
        "a size without a unit",
        spec('storage:\n  storageEnabled: true\n  data:\n    storageSize: "100"'),
        ("warning: job.yaml:9:7: spec.storage.data.storageSize: 100 is 100 bytes", '"100Gi"'),
        OK,
    ),
    Slip(
        "GPUs under resources",
        spec("resources:\n  limits:\n    amd.com/gpu: 2"),
        ("warning: job/train: spec.resources: amd.com/gpu is ignored", "spec.gpus"),
        OK,
    ),
    Slip(
        "no as a value of env",
        spec("env:\n- name: A\n  value: no"),
        ('spec.env[0].value: expected a string, got the boolean no; quote it: "no"',),
    ),
    Slip(
        "env as a mapping", spec("env:\n  A: b"), ("spec.env: expected a list, got a mapping", "- name: NAME")
    ),
    Slip(
        "env as in a shell",
        spec("env:\n- A=b"),
        ("spec.env[0]: expected a mapping", "- name: NAME", "value: VALUE"),
    ),
    Slip(
        "env without a value",
        spec("env:\n- name: TOKEN"),
        ("warning: job.yaml:7:5: spec.env[0]: TOKEN has neither value nor valueFrom", "empty"),
        OK,
    ),
    Slip(
        "gpusPerReplica without replicas",
        spec("gpusPerReplica: 2"),
        ("spec.gpusPerReplica: needs replicas", "replicas: 1"),
    ),
    Slip(
        "docker run for an image",
        spec("image: docker run --gpus all rocm/pytorch:latest"),
        ("spec.image:", "docker run", '"rocm/pytorch:latest"'),
    ),
    Slip("an image with capitals", spec("image: Team/Train:1"), ("spec.image:", '"team/train:1"')),
    Slip(
        "an image as a URL", spec("image: https://hub.docker.com/r/rocm/pytorch"), ("spec.image:", "https://")
    ),
    Slip(
        "a vendor misspelt",
        spec("gpus: 1\ngpuVendor: nvida"),
        ("job/train: would not run: VendorNotLoaded", "nvidia"),
        OK,
    ),
    Slip(
        "storage not enabled",
        spec("storage:\n  data:\n    storageSize: 1Gi"),
        ("warning: job.yaml:7:5: spec.storage.data: is ignored", "storageEnabled: true"),
        OK,
    ),
    Slip(
        "a download without a volume",
        spec("storage:\n  storageEnabled: true\n  huggingFace:\n    preCacheRepos: [{repoId: a/b}]"),
        ("spec.storage.huggingFace.storageSize: is required for downloads", '"100Gi"'),
    ),
    Slip(
        "storage without a size",
        spec("storage:\n  storageEnabled: true\n  data:\n    mountPath: /data"),
        ("warning: job.yaml:8:5: spec.storage.data: has no storageSize", "no volume"),
        OK,
    ),
    Slip(
        "a gated repository without a token",
        spec(
            "storage:\n  storageEnabled: true\n  huggingFace:\n    storageSize: 1Gi\n"
            "    preCacheRepos: [{repoId: meta-llama/Llama-3.1-8B}]"
        ),
        ("warning:", "meta-llama/Llama-3.1-8B", "gated", "HF_TOKEN"),
        OK,
    ),
    Slip(
        "a block that Ray does not use",
        spec("ray: true\nentrypoint: python a.py\njob: {}"),
        ("spec.job is ignored",),
        OK,
    ),
    Slip(
        "replicas of a plain job",
        spec("replicas: 2"),
        ("spec.replicas: is ignored",),
        OK,
    ),
)

SCRIPTS = (
    Slip(
        "[[ under sh",
        spec("entrypoint: |\n  if [[ $A == b ]]; then echo; fi"),
        ("warning: job.yaml:6:3: spec.entrypoint: line 1 uses [[", "#!/bin/bash"),
        OK,
    ),
    Slip(
        "an array under sh",
        spec("entrypoint: |\n  cd /\n  a=(1 2)"),
        ("line 2 uses an array", "#!/bin/bash"),
        OK,
    ),
    Slip("pipefail under sh", spec("entrypoint: set -euo pipefail"), ("uses pipefail", "#!/bin/bash"), OK),
    Slip(
        "an unknown interpreter",
        spec("entrypoint: |\n  #!/usr/bin/julia\n  x"),
        ("spec.entrypoint: the interpreter 'julia'", "shell, python"),
    ),
    Slip(
        "a shebang not in the first line",
        spec("entrypoint: |\n  # my job\n  #!/bin/bash\n  x"),
        ("spec.entrypoint:", "#!/bin/bash", "first line"),
        OK,
    ),
    Slip("a shebang misspelt", spec("entrypoint: |\n  #/bin/bash\n  x"), ("#/bin/bash", "#!/bin/bash"), OK),
)

FILES = (
    Slip("tabs", HEAD + "spec:\n\tgpus: 1\n", ("job.yaml:6:1:", "tab", "spaces")),
    Slip("Windows line ends", spec("gpus: 1").replace("\n", "\r\n"), ("job/train checked",), OK),
    Slip("Windows' UTF-16", spec("gpus: 1").encode("utf-16"), ("job/train checked",), OK),
    Slip("a file in Latin-1", spec("user: J\xf6rg").encode("latin-1"), ("job.yaml:6:10: not UTF-8 text",)),
    Slip("a closing quote missing", spec('image: "a/b:1'), ("job.yaml:6:10: this quote is not closed",)),
    Slip(
        "a blank missing behind a colon",
        spec("gpus:1"),
        ("job.yaml:5:1: spec: expected a mapping", "put a blank after the colon", "gpus: "),
    ),
    Slip("a colon inside a value", spec("entrypoint: echo a: b"), ("job.yaml:6:", "quote")),
    Slip("a key twice", spec("gpus: 1\ngpus: 2"), ("job.yaml:7:3:", "gpus")),
    Slip(
        "spec not indented",
        HEAD + "spec:\ngpus: 1\n",
        ("job.yaml:6:1: gpus: unknown field", "spec.gpus", "indent it"),
    ),
    Slip(
        "JSON",
        '{"apiVersion": "kaiwo.silogen.ai/v1alpha1", "kind": "KaiwoJob", "metadata": {"name": "train"}}',
        ("job/train checked",),
        OK,
    ),
    Slip("an empty file", "", ("job.yaml: no workload in this file", "apiVersion and kind")),
    Slip("a Python script", "import torch\nprint(1)\n", ("job.yaml", "expected a workload")),
    Slip(
        "one bad document of several",
        f"{spec('gpus: 1')}---\n{spec('gpu: 1', SERVICE)}",
        ("job.yaml:13:3: spec.gpu: unknown field", "error: 1 problem; nothing was sent"),
    ),
    Slip(
        "one name twice",
        f"{spec('gpus: 1')}---\n{spec('gpus: 1')}",
        ('KaiwoJob "train" is already given in job.yaml, line 1',),
    ),
)

COMMAND_LINES = (
    Slip("no such file", None, ("job.yaml: cannot be read: No such file or directory", "ls .")),
    Slip(
        "a file without -f",
        spec("gpus: 1"),
        ("job/train checked",),
        OK,
        ("submit", "--dry-run=client", "job.yaml"),
    ),
    Slip("no file at all", None, ("a file is required", "kaiwo submit FILE"), USAGE, ("submit",)),
    Slip(
        "-f with a glob of the shell",
        spec("gpus: 1"),
        ("job/train checked", "service/chat checked"),
        OK,
        (*CHECK, "chat.yaml"),
        {"chat.yaml": spec("gpus: 0", SERVICE)},
    ),
    Slip(
        "a URL",
        None,
        ("URLs are not fetched", "curl -fsSL https://example.org/a.yaml | kaiwo submit -f -"),
        USAGE,
        ("submit", "-f", "https://example.org/a.yaml"),
    ),
    Slip(
        "a URL, planned",
        None,
        ("URLs are not fetched", "curl -fsSL https://example.org/a.yaml | kaiwo plan -f -"),
        USAGE,
        ("plan", "-f", "https://example.org/a.yaml"),
    ),
    Slip(
        "--set without a value",
        spec("gpus: 1"),
        ("--set gpus", "FIELD=VALUE"),
        USAGE,
        (*CHECK, "--set", "gpus"),
    ),
    Slip(
        "--set of an unknown field",
        spec("gpus: 1"),
        ("--set gpu: spec.gpu: unknown field", '"gpus"'),
        USAGE,
        (*CHECK, "--set", "gpu=2"),
    ),
    Slip("--gpus of submit", spec("gpus: 1"), ("--gpus", "--set gpus=VALUE"), USAGE, (*CHECK, "--gpus", "2")),
    Slip("-k of kubectl", spec("gpus: 1"), ("'-k'", "kubectl kustomize DIR"), USAGE, (*CHECK, "-k", ".")),
    Slip(
        "an option misspelt", None, ("'--gpu'; did you mean \"--gpus\"?",), USAGE, ("run", "--gpu", "2", "x")
    ),
    Slip("kind and name as two words", None, ("write job/NAME as one word",), USAGE, ("status", "job", "a")),
    Slip("a name where list takes a kind", None, ("kaiwo status NAME",), USAGE, ("list", "train")),
    Slip(
        "a namespace that no namespace can be called",
        spec("gpus: 1"),
        ("--namespace", '"My_Team" cannot be a namespace', "lower-case letters"),
        USAGE,
        (*CHECK, "-n", "My_Team"),
    ),
    Slip("no shell to complete for", None, ("choose one of: bash, fish, zsh",), USAGE, ("completion",)),
    Slip(
        "a directory whose files are one level below",
        None,
        ("subdirectories are not read", "jobs/large"),
        USAGE,
        ("submit", "--dry-run=client", "jobs"),
        {"jobs/large/job.yaml": spec("gpus: 1")},
    ),
    Slip(
        "no kubeconfig",
        spec("gpus: 1"),
        ("no kubeconfig", "KUBECONFIG", "--dry-run=client"),
        FAILED,
        ("submit", "-f", "job.yaml"),
    ),
    Slip(
        "a kubeconfig that is not there",
        spec("gpus: 1"),
        ("nowhere", "no such file"),
        FAILED,
        ("submit", "-f", "job.yaml", "--kubeconfig", "nowhere"),
    ),
    Slip(
        "a context misspelt",
        spec("gpus: 1"),
        ("'porduction'", 'did you mean "production"?'),
        FAILED,
        ("submit", "-f", "job.yaml", "--context", "porduction"),
        {
            "config": "apiVersion: v1\nkind: Config\ncurrent-context: production\n"
            "contexts: [{name: production, context: {cluster: a, user: b}}]\n"
            "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: b, user: {}}]\n"
        },
        environment={"KUBECONFIG": "config"},
    ),
    Slip(
        "an API server that does not answer",
        spec("gpus: 1"),
        ("no answer from the API server", "kubectl cluster-info"),
        FAILED,
        ("submit", "-f", "job.yaml"),
        {
            "config": "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
            "contexts: [{name: a, context: {cluster: a, user: b}}]\n"
            "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: b, user: {}}]\n"
        },
        environment={"KUBECONFIG": "config"},
    ),
    Slip(
        "16 GPUs on nodes with 8",
        spec("gpus: 16"),
        ("job/train: would not run: GPUsExceedNode", "the largest node has 8"),
        FAILED,
        ("plan", "-f", "job.yaml", "--offline", "--nodes", "nodes.yaml"),
        {"nodes.yaml": NODES},
    ),
    Slip("kubectl's get", None, ('unknown command "get"', "kaiwo list"), USAGE, ("get", "jobs")),
    Slip("kubectl's apply", None, ('unknown command "apply"', "kaiwo submit"), USAGE, ("apply", "-f", "a")),
    Slip(
        "kubectl's edit", None, ('unknown command "edit"', "kubectl edit kaiwojob"), USAGE, ("edit", "train")
    ),
    Slip("docker's ps", None, ('unknown command "ps"', "kaiwo list"), USAGE, ("ps",)),
    Slip("Slurm's sbatch", None, ('unknown command "sbatch"', "kaiwo submit"), USAGE, ("sbatch", "a")),
    Slip(
        "a flag of list before its name misspelt",
        None,
        ("--all-namespace", "--all-namespaces"),
        USAGE,
        ("list", "--all-namespace"),
    ),
    Slip("a kind of list misspelt", None, ('unknown kind "jbos"', "job, service"), USAGE, ("list", "jbos")),
    Slip(
        "a status misspelt",
        None,
        ('unknown status "RUNING"', '"RUNNING"'),
        USAGE,
        ("list", "--status", "RUNING"),
    ),
    Slip(
        "kaiwoconfig.yaml with an unknown key",
        spec("gpus: 1"),
        ('queue: unknown key; did you mean "clusterQueue"?',),
        USAGE,
        (*CHECK, "--config", "mine.yaml"),
        {"mine.yaml": "queue: team-a\n"},
    ),
)

MAIN = "from kaiwo.cli.main import main; main()"

SLIPS = (*FIELDS, *VALUES, *SCRIPTS, *FILES, *COMMAND_LINES)


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.name)
def test_a_slip_is_answered_with_its_cause_and_the_next_step(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, slip: Slip
) -> None:
    """The exit code fits, the message names the place and what to do, and no traceback appears."""
    if slip.text is not None:
        Path("job.yaml").write_bytes(slip.text if isinstance(slip.text, bytes) else slip.text.encode())
    for name, text in slip.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    for name, value in slip.environment.items():
        monkeypatch.setenv(name, value)
    result = cli(*slip.args, stdin=slip.stdin)
    missing = [part for part in slip.says if part not in result.err]
    assert not missing, result.err
    assert result.code == slip.code, result.err
    assert "Traceback" not in result.err
    if result.code == USAGE:
        assert "error:" in result.err


def test_the_table_has_sixty_slips_and_no_name_twice() -> None:
    """A row that replaces another one by accident would be lost."""
    assert len(SLIPS) >= 60
    assert len({slip.name for slip in SLIPS}) == len(SLIPS)


def test_a_closed_pipe_ends_the_command_in_silence(home: Path) -> None:
    """``kaiwo plan ... | head -1`` is everyday use; Python would print a traceback about the pipe."""
    assert home.is_dir()
    Path("job.yaml").write_text(
        "---\n".join(spec("gpus: 1", HEAD.replace("train", f"a{i}")) for i in range(200))
    )
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "plan", "--offline", "-q", "-f", "job.yaml"],
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr == b""
