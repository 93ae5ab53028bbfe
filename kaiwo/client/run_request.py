"""From the arguments of ``run`` to a KaiwoJob or KaiwoService; nothing is read or sent here."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kaiwo.api.kubelet_expansion import literal
from kaiwo.api.name_rules import rule_for
from kaiwo.client.errors import InvalidArgument
from kaiwo.client.kinds import GROUP, VERSION
from kaiwo.client.run_pods import ARCHIVE_FOLDER, SCRIPT_KEY, WORK_FOLDER, pod_template
from kaiwo.engine.quantity import InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo.engine.resource import Object

RUN_TOKEN = "kaiwo.silogen.ai/run-token"  # noqa: S105 -- an annotation's key
"""Annotation with a random text, by which ``run`` recognizes a workload as the one that it sent."""

DATA_FOLDER = "/workload"
"""Where ``--storage`` and ``--git`` mount the data volume unless a path is given."""

GIT_FOLDER = "code"
"""Folder of the data volume that ``--git`` fills."""

_GIT_STORAGE = "10Gi"
_HF_STORAGE = "100Gi"
_SUFFIX_LENGTH = 6
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_GIT_REF = re.compile(r"(https?://[^/]*/.+)(?<!/)@(.*)", re.DOTALL)
"""An address and a branch or commit. The user of a host, and a folder ``/@team``, belong to the address."""

_QUANTITY = re.compile(r"\d+(\.\d+)?([EPTGMk]i?|Ki)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_INTERPRETERS = re.compile(
    r"(python[0-9.]*|bash|sh|zsh|uv|uvx|poetry|pipenv|run|env|exec|torchrun|accelerate|launch|deepspeed|ray|time|nice)"
)

IDLE = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
"""The entrypoint of a pod that waits for a shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What is to run, and with what.

    Attributes:
        command: the program and its arguments; one text with blanks is a shell command.
        gpus: GPUs of the whole workload.
        image: container image; empty for the cluster's default.
        name: of the workload; empty for one that is made of the command.
        vendor: of the GPUs; empty for the cluster's default.
        replicas: Ray workers, or replicas of a service.
        ray: run on Ray.
        env: environment variables.
        secrets: ``VARIABLE=SECRET:KEY`` for a variable, ``SECRET`` or ``SECRET:/PATH`` for files.
        queue: to wait in; empty for the default one.
        user: owner; empty for that of kaiwoconfig.yaml.
        storage: ``SIZE``, ``SIZE:/PATH`` or ``SIZE:/PATH:CLASS`` of a data volume; empty for none.
        git: ``URL`` or ``URL@BRANCH`` or ``URL@COMMIT`` to clone and run in; empty for none.
        hf: ``ORG/MODEL`` or ``ORG/MODEL:SIZE`` of the Hugging Face Hub, downloaded first.
        service: a service instead of a job.
        port: that the service listens on; 0 for none.
        annotations: of the workload and its pods.
    """

    command: Sequence[str]
    gpus: int = 0
    image: str = ""
    name: str = ""
    vendor: str = ""
    replicas: int = 1
    ray: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    queue: str = ""
    user: str = ""
    storage: str = ""
    git: str = ""
    hf: Sequence[str] = ()
    service: bool = False
    port: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus_per_pod(self) -> int:
        """GPUs of each pod that gets some."""
        return self.gpus // self.replicas if self.replicas else 0


def check(request: RunRequest) -> None:
    """Look for what cannot be run.

    Raises:
        InvalidArgument: what, and what to do.
    """
    if not request.command:
        raise InvalidArgument("no command", "write it after --, for example: kaiwo run -- python train.py")
    if isinstance(request.command, str):
        raise InvalidArgument("command: expected a list of texts", f"write [{request.command!r}]")
    _check_types(request)
    if request.gpus < 0 or request.replicas < 1:
        raise InvalidArgument("gpus must not be negative, and replicas must be at least 1")
    if request.service and request.ray:
        raise InvalidArgument(
            "a service on Ray needs applications of Ray Serve",
            "write a KaiwoService with ray: true and serveConfigV2; kaiwo submit -f FILE",
        )
    if request.replicas > 1 and not (request.ray or request.service):
        raise InvalidArgument(
            f"replicas: {request.replicas}: a plain job is one pod", "add --ray, or leave --replicas out"
        )
    if request.gpus % request.replicas:
        raise InvalidArgument(
            f"{request.gpus} GPUs cannot be split evenly over {request.replicas} replicas",
            f"for example --gpus {-(-request.gpus // request.replicas) * request.replicas}",
        )
    if request.port and not request.service:
        raise InvalidArgument("port: a job has no port", "add --service, or leave --port out")


def _check_types(request: RunRequest) -> None:
    """Name a value of a notebook or a script that is of another type than its annotation."""
    for part in request.command:
        if not isinstance(part, str):
            raise InvalidArgument(
                f"command: expected texts, got {part!r}", 'write run("python", "train.py"), or run(*LIST)'
            )
    for name, value in request.env.items():
        if not isinstance(value, str):
            raise InvalidArgument(f"env {name}: expected a text, got {value!r}", f'write "{value}"')
    for name in ("gpus", "replicas"):
        value = getattr(request, name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidArgument(f"{name}: expected a whole number, got {value!r}", f"for example {name}=8")


def entrypoint(request: RunRequest, folder: str = "") -> str:
    """The command as a script for ``/bin/sh``; every argument arrives as it was written.

    Args:
        request: what is to run.
        folder: to change into first; empty to stay in the container's own.
    """
    command = list(request.command)
    if len(command) == 1 and any(char.isspace() for char in command[0]):
        text = command[0]
    else:
        # With exec, signals and the exit code are the program's own.
        text = f"exec {shlex.join(command)}"
    return f"cd {shlex.quote(folder)} && {text}" if folder else text


def default_name(request: RunRequest, suffix: str) -> str:
    """A name that is made of the command: ``train-x7k2p`` for ``python train.py``.

    Args:
        request: what is to run.
        suffix: five letters or digits that make it unique.
    """
    words = [word for text in request.command for word in text.split()]
    base = "run"
    for word in words:
        last = word.rsplit("/", 1)[-1]
        if word.startswith("-") or "=" in word or _INTERPRETERS.fullmatch(last):
            continue
        base = re.sub(r"\.[A-Za-z0-9]{1,4}$", "", last) or base
        break
    rule = rule_for(ray=request.ray)
    return f"{rule.legal(base)[: rule.limit - _SUFFIX_LENGTH].rstrip('-')}-{suffix}"


def script(request: RunRequest, *, unpacks: bool, idle: bool) -> str:
    """What ``/bin/sh`` runs.

    Args:
        request: what is to run.
        unpacks: whether a folder is shipped.
        idle: whether it waits for a shell.
    """
    if idle:
        return IDLE
    folder = f"{_data_folder(request)}/{GIT_FOLDER}" if request.git else ""
    if unpacks and request.ray:
        # Ray starts the entrypoint wherever its own processes run.
        folder = WORK_FOLDER
    return entrypoint(request, folder)


def build(
    request: RunRequest,
    *,
    name: str,
    token: str,
    config_map: str = "",
    unpacks: bool = True,
    scheduler: str = "",
    idle: bool = False,
) -> Object:
    """The workload.

    Args:
        request: what is to run, after `check`.
        name: of the workload.
        token: random text for `RUN_TOKEN`.
        config_map: name of the ConfigMap with the folder, and on Ray with the `script`; empty for none.
        unpacks: whether the folder is in it.
        scheduler: of the pods; empty for the cluster's default. Pods that the operator generates have that
            of KaiwoConfig, the templates here must name it.
        idle: whether it waits for a shell, and the command is run there.

    Raises:
        InvalidArgument: an argument cannot be read.
    """
    env, volumes = _secrets(request.secrets)
    variables = {"PYTHONUNBUFFERED": "1", **request.env}
    spec: Object = {
        "user": request.user or None,
        "clusterQueue": request.queue or None,
        "gpus": request.gpus or None,
        "gpuVendor": request.vendor or None,
        "image": request.image or None,
        "ray": request.ray or None,
        "env": [*({"name": key, "value": literal(value)} for key, value in variables.items()), *env],
        "secretVolumes": volumes or None,
        "storage": _storage(request),
        # On its way to a Ray head a command is read by two shells and quoted as on Windows in between.
        "entrypoint": f"sh {ARCHIVE_FOLDER}/{SCRIPT_KEY}"
        if request.ray
        else literal(script(request, unpacks=bool(config_map) and unpacks, idle=idle)),
    }
    if request.ray or request.service:
        spec["replicas"] = request.replicas
        spec["gpusPerReplica"] = request.gpus_per_pod or None
    if config_map or request.port:
        spec |= _blocks(
            request, partial(pod_template, config_map=config_map, unpacks=unpacks, scheduler=scheduler)
        )
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "KaiwoService" if request.service else "KaiwoJob",
        "metadata": {"name": name, "annotations": {**request.annotations, RUN_TOKEN: token}},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def _blocks(request: RunRequest, template: Callable[..., Object]) -> Object:
    """The embedded object with the pod templates of the kind of workload."""
    gpus = request.gpus_per_pod
    if request.service:
        return {"deployment": {"spec": {"template": template("workload", gpus=gpus, port=request.port)}}}
    if not request.ray:
        return {"job": {"spec": {"template": template("workload", gpus=gpus)}}}
    head = template("ray-head")
    worker = template("ray-worker", gpus=gpus, shm="200Gi")
    return {
        "rayJob": {
            "spec": {
                "rayClusterSpec": {
                    "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": head},  # noqa: S104
                    "workerGroupSpecs": [
                        {"groupName": "default-worker-group", "rayStartParams": {}, "template": worker}
                    ],
                }
            }
        }
    }


def _secrets(texts: Sequence[str]) -> tuple[list[Object], list[Object]]:
    """Environment variables and volumes of ``--secret``."""
    env: list[Object] = []
    volumes: list[Object] = []
    how = "write VARIABLE=SECRET:KEY for a variable, SECRET or SECRET:/PATH for files"
    for text in texts:
        variable, equals, source = text.partition("=")
        secret, _, rest = (source if equals else text).partition(":")
        if not secret or (equals and not (_VARIABLE.fullmatch(variable) and rest)):
            raise InvalidArgument(f"secret {text}: cannot be read", how)
        if equals:
            env.append({"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": rest}}})
        elif rest and not rest.startswith("/"):
            raise InvalidArgument(f"secret {text}: {rest} is not an absolute path", how)
        else:
            volumes.append(
                {
                    "name": f"secret-{len(volumes)}",
                    "secretName": secret,
                    "mountPath": rest or f"/secrets/{secret}",
                }
            )
    return env, volumes


def _data_folder(request: RunRequest) -> str:
    return request.storage.split(":")[1] if ":" in request.storage else DATA_FOLDER


def _storage(request: RunRequest) -> Object | None:
    """``spec.storage`` of ``--storage``, ``--git`` and ``--hf``; None without any of them."""
    if not (request.storage or request.git or request.hf):
        return None
    storage: Object = {"storageEnabled": True}
    if request.storage or request.git:
        size, _, rest = (request.storage or _GIT_STORAGE).partition(":")
        path, _, storage_class = rest.partition(":")
        if not _QUANTITY.fullmatch(size) or (rest and not path.startswith("/")):
            raise InvalidArgument(
                f"storage {request.storage}: cannot be read{_unit(size)}",
                "write SIZE, SIZE:/PATH or SIZE:/PATH:CLASS, for example 100Gi:/data",
            )
        storage["data"] = {"storageSize": size, "mountPath": path or DATA_FOLDER}
        if storage_class:
            storage["storageClassName"] = storage_class
    if request.git:
        storage["data"]["download"] = {"git": [_git(request.git)]}
    if request.hf:
        storage["huggingFace"] = _hugging_face(request.hf)
    return storage


def _unit(size: str) -> str:
    """What is wrong with a size, such as one in GB; empty where nothing is."""
    try:
        parse_quantity(size)
    except InvalidQuantity as error:
        return f": {error}"
    return ""


def _git(text: str) -> Object:
    """``https://host/repo.git@main`` as an item; a branch may have slashes, as ``feature/x``."""
    with_ref = _GIT_REF.fullmatch(text)
    address, ref = with_ref.groups() if with_ref else (text, "")
    if not text.startswith(("https://", "http://")):
        raise InvalidArgument(
            f"git {text}: expected an address that starts with https://",
            "use the repository's https address; ssh keys are not sent to the cluster",
        )
    item: dict[str, Any] = {"repository": address, "targetPath": GIT_FOLDER}
    if ref:
        item["commit" if _COMMIT.fullmatch(ref) else "branch"] = ref
    return item


def _hugging_face(texts: Sequence[str]) -> Object:
    repositories = []
    size = 0
    for text in texts:
        repository, _, given = text.partition(":")
        amount = re.fullmatch(r"(\d+)Gi", given or _HF_STORAGE)
        if not repository or amount is None:
            raise InvalidArgument(
                f"hf {text}: cannot be read",
                "write ORG/MODEL or ORG/MODEL:SIZE with whole Gi, for example ORG/MODEL:200Gi",
            )
        repositories.append({"repoId": repository})
        size += int(amount[1])
    return {"storageSize": f"{size}Gi", "preCacheRepos": repositories}
