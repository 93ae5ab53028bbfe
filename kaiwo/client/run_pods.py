"""The pod template of ``run``: what the operator generates, and an init container that unpacks the folder.

A template that a workload brings along is completed by the operator, but gets none of the defaults of a
generated one. So they are written here: security contexts of the Pod Security Standard ``restricted``, shared
memory, CPU and memory for the GPUs, the log of a container that failed as its message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.workload.pods.resources import CPU_PER_GPU, MEMORY_PER_GPU_GIB
from kaiwo.workload.pods.security import restricted_container, restricted_pod

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

WORK_FOLDER: Final = "/workdir"
"""Where the folder is unpacked, and the working directory of the containers."""

ARCHIVE_KEY: Final = "files.tar.gz"
"""Key of the ConfigMap."""

ARCHIVE_FOLDER: Final = "/kaiwo-archive"
SCRIPT_KEY: Final = "run.sh"
"""Key of the ConfigMap with the command of a workload on Ray."""

UNPACKER: Final = "unpack-folder"
"""Name of the init container."""

_PYTHON = (
    "import sys, tarfile\n"
    "with tarfile.open(sys.argv[1]) as tar:\n"
    "    tar.extractall('.', **({'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}))\n"
)

UNPACK: Final = f"""\
archive={ARCHIVE_FOLDER}/{ARCHIVE_KEY}
cd {WORK_FOLDER} || exit 1
if [ ! -r "$archive" ]; then
  echo "cannot read $archive: the ConfigMap with the folder is missing or empty" >&2
  exit 1
fi
if command -v tar >/dev/null 2>&1 && tar -xzof "$archive"; then exit 0; fi
for python in python3 python; do
  if command -v "$python" >/dev/null 2>&1 && "$python" -c "{_PYTHON}" "$archive"; then exit 0; fi
done
if command -v tar >/dev/null 2>&1 || command -v python3 >/dev/null 2>&1; then
  echo "the folder could not be unpacked into {WORK_FOLDER}; see the lines above" >&2
else
  echo "the image has neither tar nor python3, so the folder cannot be unpacked; use another image," \\
    "or put the code into the image and run with --no-sync" >&2
fi
exit 1
"""
"""Unpacks with tar, else with Python. A pod that is started anew on its node unpacks over what is there."""


_ARCHIVE_MOUNT: Final = {"name": "folder-archive", "mountPath": ARCHIVE_FOLDER, "readOnly": True}


def pod_template(
    container: str,
    *,
    config_map: str = "",
    unpacks: bool = True,
    scheduler: str = "",
    gpus: int = 0,
    port: int = 0,
    shm: str = "1Gi",
) -> Object:
    """One pod template.

    Args:
        container: name of the primary container.
        config_map: name of the ConfigMap with the folder, the command, or both; empty for none.
        unpacks: whether the folder is in it.
        scheduler: name of the scheduler; empty for the cluster's default.
        gpus: GPUs of the pod, by which CPU and memory are chosen; the operator adds the GPUs themselves.
        port: that the container listens on; 0 for none.
        shm: size of /dev/shm.
    """
    primary: Object = {
        "name": container,
        "imagePullPolicy": "Always",
        "securityContext": restricted_container(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],  # noqa: S108 -- a path in the container
    }
    if gpus:
        amounts = {"cpu": str(CPU_PER_GPU * gpus), "memory": f"{MEMORY_PER_GPU_GIB * gpus}Gi"}
        primary["resources"] = {"requests": amounts, "limits": dict(amounts)}
    if port:
        primary["ports"] = [{"name": "http", "containerPort": port}]
        primary["readinessProbe"] = {"tcpSocket": {"port": port}, "periodSeconds": 5}
    pod: Object = {
        "securityContext": restricted_pod(),
        "containers": [primary],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": shm}}],
    }
    if scheduler:
        pod["schedulerName"] = scheduler
    if config_map:
        pod["volumes"].append({"name": "folder-archive", "configMap": {"name": config_map}})
        primary["volumeMounts"].append(dict(_ARCHIVE_MOUNT))
    if config_map and unpacks:
        work = {"name": "workdir", "mountPath": WORK_FOLDER}
        primary["workingDir"] = WORK_FOLDER
        primary["volumeMounts"].append(work)
        pod["initContainers"] = [_unpacker(work)]
        pod["volumes"].append({"name": "workdir", "emptyDir": {}})
    return {"spec": pod}


def _unpacker(work: Object) -> Object:
    """The init container; it has the workload's image, which the node needs anyhow."""
    amounts = {"cpu": "100m", "memory": "128Mi"}
    return {
        "name": UNPACKER,
        "imagePullPolicy": "Always",
        "command": ["/bin/sh", "-c", UNPACK],
        "securityContext": restricted_container(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": amounts, "limits": {"cpu": "1", "memory": "512Mi"}},
        "volumeMounts": [dict(work), dict(_ARCHIVE_MOUNT)],
    }
