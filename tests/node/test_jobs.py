"""KaiwoJobs whose containers really run: how they start, what they see, and how they end."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

BASH = """
#!/bin/bash
set -o pipefail
words=(one two three)
echo "${#words[@]} words, ${BASH_VERSION%%.*}"
"""
PYTHON = """
#!/usr/bin/env python3
import sys
print(f"python {sys.version_info.major}, {len(sys.argv)} argument")
"""
PLAIN = "echo $((1 + 2)) | tr 3 4"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(BASH, "3 words, 5\n", id="bash"),
        pytest.param(PYTHON, "python 3, 1 argument\n", id="env-python3"),
        pytest.param(PLAIN, "4\n", id="no-shebang"),
    ],
)
def test_an_entrypoint_is_run_by_the_interpreter_in_its_first_line(
    lab: Any, script: str, expected: str
) -> None:
    """A shell without arrays, or python, would fail on the scripts of the others."""
    lab.submit("script", entrypoint=script.strip())
    status = lab.reaches("script", "COMPLETE", "FAILED")
    assert (status["status"], lab.log("script")) == ("COMPLETE", expected)


@pytest.mark.parametrize("code", [1, 3, 137])
def test_a_failed_job_has_the_exit_code_of_its_container(lab: Any, code: int) -> None:
    """Also one that looks like a signal and is none."""
    lab.submit("fails", entrypoint=f"sleep 1; exit {code}")
    status = lab.reaches("fails", "FAILED", "COMPLETE")
    assert status["status"] == "FAILED"
    assert str(code) in status["message"]
    assert "OOM" not in status["message"]
    assert lab.terminated("fails")["exitCode"] == code


def test_a_job_that_exceeds_its_memory_limit_is_reported_as_oomkilled(lab: Any) -> None:
    """The kernel kills it; the exit code alone would not say why."""
    code = "python3 -c 'print(len(bytes([1]) * (300 << 20)))'"
    lab.submit("oom", entrypoint=code, resources={"limits": {"memory": "64Mi"}})
    status = lab.reaches("oom", "FAILED", "COMPLETE")
    assert status["status"] == "FAILED"
    assert "OOMKilled" in status["message"]
    assert lab.terminated("oom")["reason"] == "OOMKilled"


def test_a_deleted_job_can_write_a_checkpoint_in_its_grace_period(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """SIGTERM reaches the program itself, its volume outlives it, and the next job reads the checkpoint."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "checkpoints"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    lab.api.create(f"{lab.core}/persistentvolumeclaims", claim)
    script = """
        #!/usr/bin/env python3
        import signal, sys, time
        def save(*_):
            time.sleep(2)
            open("/checkpoints/step", "w").write("41")
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("training", flush=True)
        time.sleep(600)
    """
    mounted = {
        "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "checkpoints"}}],
        "terminationGracePeriodSeconds": 30,
    }
    container = {"name": "main", "volumeMounts": [{"name": "c", "mountPath": "/checkpoints"}]}
    job = {"spec": {"template": {"spec": {**mounted, "containers": [container]}}}}
    lab.submit("train", entrypoint=textwrap.dedent(script).strip(), job=job)
    lab.reaches("train", "RUNNING")
    wait_for("the first line", lambda: "training" in lab.log("train"))
    lab.delete("train")
    wait_for("the end of the pod", lambda: not lab.pods("train"))
    lab.submit("resume", entrypoint="cat /checkpoints/step", job=job)
    lab.reaches("resume", "COMPLETE", "FAILED")
    assert lab.log("resume") == "41"


def test_environment_secrets_and_gpus_are_as_written(lab: Any) -> None:
    """Values with spaces and dollars, a value from a Secret, and Secrets as files."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login"},
        "stringData": {"token": "s3cret", "user.json": '{"name": "ada"}'},
    }
    lab.api.create(f"{lab.core}/secrets", secret)
    script = """
        #!/usr/bin/env python3
        import json, os
        print(json.dumps({
            "text": os.environ["TEXT"],
            "token": os.environ["TOKEN"],
            "all": sorted(name for name in os.listdir("/secrets/all") if name[0] != "."),
            "one": json.load(open("/secrets/one/user.json")),
            "named": open("/secrets/named/api-token").read(),
        }))
    """
    lab.submit(
        "sees",
        entrypoint=textwrap.dedent(script).strip(),
        env=[
            {"name": "TEXT", "value": "a $HOME 'quoted' $(id)"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "login", "key": "token"}}},
        ],
        secretVolumes=[
            {"name": "all", "secretName": "login", "mountPath": "/secrets/all"},
            {"name": "one", "secretName": "login", "key": "user.json", "mountPath": "/secrets/one"},
            {
                "name": "named",
                "secretName": "login",
                "key": "token",
                "subPath": "api-token",
                "mountPath": "/secrets/named",
            },
        ],
    )
    lab.reaches("sees", "COMPLETE", "FAILED")
    assert json.loads(lab.log("sees")) == {
        "text": "a $HOME 'quoted' $(id)",
        "token": "s3cret",
        "all": ["token", "user.json"],
        "one": {"name": "ada"},
        "named": "s3cret",
    }


def test_a_data_volume_is_writable_for_the_job_and_kept_for_the_next(lab: Any) -> None:
    """The volume is made by a provisioner, bound by the API, and mounted by the kubelet."""
    storage = {
        "storageEnabled": True,
        "accessMode": "ReadWriteMany",
        "data": {"mountPath": "/data", "storageSize": "1Gi"},
    }
    lab.submit("writes", entrypoint="echo kept > /data/file; cat /data/file", storage=storage)
    lab.reaches("writes", "COMPLETE", "FAILED")
    assert lab.log("writes") == "kept\n"
    (claim,) = lab.api.get(f"{lab.core}/persistentvolumeclaims")["items"]
    assert claim["status"]["phase"] == "Bound"


def test_a_volume_that_is_full_is_an_error_of_the_program(lab: Any) -> None:
    """On a volume of a real size: the job fails with its own message."""
    storage = {
        "storageEnabled": True,
        "storageClassName": "sandbox-sized",
        "accessMode": "ReadWriteOnce",
        "data": {"mountPath": "/data", "storageSize": "1Mi"},
    }
    lab.submit("full", entrypoint="dd if=/dev/zero of=/data/file bs=1M count=3", storage=storage)
    assert lab.reaches("full", "FAILED", "COMPLETE")["status"] == "FAILED"
    assert "No space left on device" in lab.log("full")


def test_gpus_are_counted_by_the_node_and_free_again_after_the_job(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """The node reports eight; a second job with five waits for the first one."""
    small = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}
    job = {"spec": {"template": {"spec": {"containers": [{"name": "main", "resources": small}]}}}}
    lab.submit("first", entrypoint="sleep 6", gpus=5, job=job)
    lab.reaches("first", "RUNNING")
    lab.submit("second", entrypoint="echo done", gpus=5, job=job)
    limits = lab.pod("second")["spec"]["containers"][0]["resources"]["limits"]
    assert limits["amd.com/gpu"] == "5"

    def unschedulable() -> bool:
        conditions = lab.pod("second")["status"].get("conditions", [])
        return any("Insufficient amd.com/gpu" in item.get("message", "") for item in conditions)

    wait_for("the scheduler's refusal", unschedulable)
    lab.reaches("first", "COMPLETE")
    lab.reaches("second", "COMPLETE")


def test_shared_memory_has_the_size_of_the_template(lab: Any) -> None:
    """The 64 MiB of a container runtime are too few for data loaders."""
    template = {
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "200Mi"}}],
        "containers": [{"name": "main", "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}],
    }
    lab.submit(
        "shm",
        entrypoint="head -c 100000000 /dev/zero > /dev/shm/x && df -m /dev/shm | tail -1 | awk '{print $2}'",
        job={"spec": {"template": {"spec": template}}},
    )
    lab.reaches("shm", "COMPLETE", "FAILED")
    assert lab.log("shm") == "200\n"


def test_init_containers_run_before_the_job_and_their_failure_is_its_failure(lab: Any) -> None:
    """With the image of the workload, in the order of the list."""

    def template(script: str) -> dict[str, Any]:
        mounts = [{"name": "w", "mountPath": "/w"}]
        init = {"name": "prepare", "command": ["sh", "-c", script], "volumeMounts": mounts}
        return {
            "initContainers": [init],
            "containers": [{"name": "main", "volumeMounts": mounts}],
            "volumes": [{"name": "w", "emptyDir": {}}],
        }

    for name, script in (("ready", "echo prepared > /w/f"), ("broken", "echo no licence; exit 9")):
        spec = {"spec": {"template": {"spec": template(script)}}}
        lab.submit(name, entrypoint="cat /w/f", job=spec)
    assert lab.reaches("ready", "COMPLETE", "FAILED")["status"] == "COMPLETE"
    assert lab.log("ready") == "prepared\n"
    status = lab.reaches("broken", "FAILED", "COMPLETE")
    assert status["status"] == "FAILED"
    assert "prepare" in status["message"]
    assert "9" in status["message"]


def test_a_generated_job_runs_under_pod_security_restricted(lab: Any) -> None:
    """As user 1000, without capabilities, in a namespace that admits nothing else."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    lab.api.request(
        "PATCH",
        f"/api/v1/namespaces/{lab.namespace}",
        {"metadata": {"labels": labels}},
        content_type="application/merge-patch+json",
    )
    lab.submit("safe", entrypoint="id -u; grep CapEff /proc/self/status; grep Seccomp: /proc/self/status")
    lab.reaches("safe", "COMPLETE", "FAILED")
    assert lab.log("safe").split() == ["1000", "CapEff:", "0000000000000000", "Seccomp:", "2"]


def test_an_image_that_does_not_exist_is_named_with_the_reason(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """A registry that answers 404 is what users see most often."""
    lab.submit("typo", image="registry.sandbox/pyhton:3", entrypoint="true")

    def reported() -> bool:
        return "registry.sandbox/pyhton:3" in lab.status_of_job("typo").get("message", "")

    wait_for("the image in the message", reported)
    assert lab.status_of_job("typo")["status"] == "STARTING"


def test_a_container_that_cannot_be_started_is_a_failure_with_the_runtimes_message(lab: Any) -> None:
    """There is no bash in this image; the pod's times are those of this year."""
    lab.submit("nobash", image="registry.sandbox/busybox:1", entrypoint="#!/bin/bash\necho no")
    status = lab.reaches("nobash", "FAILED", "COMPLETE")
    assert status["status"] == "FAILED"
    assert "/bin/bash" in status["message"]
    assert lab.terminated("nobash")["startedAt"].startswith("1970")
    assert not status.get("startTime", "").startswith("1970")
