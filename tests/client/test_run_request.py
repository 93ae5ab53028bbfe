"""What `kaiwo run` makes of its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaiwo.api.validate import Validator
from kaiwo.client import run as runs
from kaiwo.client.errors import InvalidArgument
from kaiwo.client.run_pods import ARCHIVE_FOLDER, UNPACK, WORK_FOLDER
from kaiwo.client.run_request import RunRequest, build, check, default_name, entrypoint, script
from kaiwo.client.shipping import pack
from kaiwo.client.user_config import UserConfig
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from pathlib import Path


def request(*command: str, **options: Any) -> RunRequest:
    """A request with a command."""
    return RunRequest(command=command or ("python", "train.py"), **options)


def built(wanted: RunRequest, **how: Any) -> dict[str, Any]:
    """The workload of a request, valid."""
    check(wanted)
    obj = build(wanted, **{"name": "train", "token": "t", **how})
    plugins = load()
    validation = Validator(plugins.fields(), plugins.settings_models()).validate(obj)
    assert validation.problems == ()
    assert validation.warnings == ()
    return obj


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
        min_size=1,
        max_size=4,
    )
)
def test_every_argument_arrives_as_it_was_written(arguments: list[str]) -> None:
    """Blanks, quotes, dollars, line ends and empty arguments."""
    show = "import sys; sys.stdout.buffer.write('\\0'.join(sys.argv[1:]).encode())"
    script = entrypoint(request(sys.executable, "-c", show, *arguments))
    answer = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True)
    assert answer.stdout.decode().split("\0") == arguments


def test_what_a_kubelet_would_replace_is_quoted() -> None:
    """It reads dollars in commands and variables before any shell does."""
    spec = built(request("bash", "-c", "kill -- -$$; echo $(NUM_GPUS) $HOME", env={"A": "x$$y"}))["spec"]
    assert spec["entrypoint"] == "exec bash -c 'kill -- -$$$$; echo $$(NUM_GPUS) $HOME'"
    assert spec["env"][1] == {"name": "A", "value": "x$$$$y"}


def test_one_text_with_blanks_is_a_shell_command() -> None:
    """As people quote pipelines for other tools."""
    assert entrypoint(request("cat a | sort > b")) == "cat a | sort > b"
    assert entrypoint(request("./train.sh")) == "exec ./train.sh"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "train.py", "--lr", "3"), "train-abcde"),
        (("python3", "-u", "-m", "my_package.Train"), "my-package-train-abcde"),
        (("torchrun", "--nproc=2", "src/Fine_Tune.py"), "fine-tune-abcde"),
        (("./run-all.sh",), "run-all-abcde"),
        (("A=1", "env", "nvidia-smi"), "nvidia-smi-abcde"),
        (("bash", "-c"), "run-abcde"),
        (("x" * 90,), f"{'x' * 57}-abcde"),
    ],
)
def test_the_name_is_made_of_the_command(command: tuple[str, ...], name: str) -> None:
    """So that a list of workloads can be read."""
    assert default_name(request(*command), "abcde") == name


def test_a_plain_run_is_a_short_manifest() -> None:
    """Without a folder there is no embedded template: the operator generates the pod."""
    assert built(request(gpus=2, image="img", queue="team", env={"A": "b=c"}))["spec"] == {
        "clusterQueue": "team",
        "gpus": 2,
        "image": "img",
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}, {"name": "A", "value": "b=c"}],
        "entrypoint": "exec python train.py",
    }


def test_a_shipped_folder_is_unpacked_before_every_start() -> None:
    """Every pod of the job gets it, a retried one too."""
    pod = built(request(gpus=2), config_map="files", scheduler="mine")["spec"]["job"]["spec"]["template"][
        "spec"
    ]
    assert pod["schedulerName"] == "mine"
    assert pod["initContainers"][0]["command"] == ["/bin/sh", "-c", UNPACK]
    assert pod["containers"][0]["workingDir"] == WORK_FOLDER
    assert pod["containers"][0]["resources"]["limits"] == {"cpu": "8", "memory": "64Gi"}
    assert {"name": "folder-archive", "configMap": {"name": "files"}} in pod["volumes"]


def test_the_pod_meets_the_standard_restricted() -> None:
    """A namespace may enforce it; the init container counts too."""
    pod = built(request(), config_map="files")["spec"]["job"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    assert {key for volume in pod["volumes"] for key in volume} == {"name", "emptyDir", "configMap"}


def test_on_ray_all_pods_get_the_folder() -> None:
    """Tasks import the code on the workers."""
    spec = built(request(gpus=16, replicas=2, ray=True), config_map="files")["spec"]
    assert (spec["replicas"], spec["gpusPerReplica"]) == (2, 8)
    assert spec["entrypoint"] == "sh /kaiwo-archive/run.sh"
    cluster = spec["rayJob"]["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["template"]["spec"]["initContainers"][0]["name"] == "unpack-folder"
    worker = cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    assert worker["resources"]["limits"] == {"cpu": "32", "memory": "256Gi"}


def test_on_ray_the_command_travels_as_a_file() -> None:
    """KubeRay's shell and Ray's quoting would change it: a pipeline would run in the submitter's pod."""
    wanted = request("python", "tune.py", "a b", ray=True)
    ready = runs.prepare(wanted, config=UserConfig(), namespace="team")
    assert ready.manifest["spec"]["entrypoint"] == "sh /kaiwo-archive/run.sh"
    assert ready.config_map is not None
    assert ready.config_map["data"] == {"run.sh": "exec python tune.py 'a b'\n"}
    cluster = ready.manifest["spec"]["rayJob"]["spec"]["rayClusterSpec"]
    head = cluster["headGroupSpec"]["template"]["spec"]
    assert "initContainers" not in head
    assert "/kaiwo-archive" in [mount["mountPath"] for mount in head["containers"][0]["volumeMounts"]]
    assert script(wanted, unpacks=True, idle=False) == f"cd {WORK_FOLDER} && exec python tune.py 'a b'"


def test_a_service_has_a_port_and_is_ready_when_it_answers() -> None:
    """The operator makes a Service of the port."""
    obj = built(request(gpus=2, replicas=2, service=True, port=8000))
    container = obj["spec"]["deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert obj["kind"] == "KaiwoService"
    assert container["ports"] == [{"name": "http", "containerPort": 8000}]
    assert container["readinessProbe"]["tcpSocket"] == {"port": 8000}


def test_git_hub_storage_and_secrets_become_fields() -> None:
    """The short forms of what a manifest says at length."""
    spec = built(
        request(
            git="https://git.example.com/team/code.git@main",
            hf=("org/model", "org/data:50Gi"),
            storage="200Gi:/data:fast",
            secrets=("HF_TOKEN=hub:token", "s3", "ssh:/keys"),
        )
    )["spec"]
    assert spec["storage"] == {
        "storageEnabled": True,
        "storageClassName": "fast",
        "data": {
            "storageSize": "200Gi",
            "mountPath": "/data",
            "download": {
                "git": [
                    {
                        "repository": "https://git.example.com/team/code.git",
                        "targetPath": "code",
                        "branch": "main",
                    }
                ]
            },
        },
        "huggingFace": {
            "storageSize": "150Gi",
            "preCacheRepos": [{"repoId": "org/model"}, {"repoId": "org/data"}],
        },
    }
    assert spec["entrypoint"] == "cd /data/code && exec python train.py"
    assert spec["env"][-1] == {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
    }
    assert [(volume["secretName"], volume["mountPath"]) for volume in spec["secretVolumes"]] == [
        ("s3", "/secrets/s3"),
        ("ssh", "/keys"),
    ]
    commit = build(request(git=f"https://h/c@{'a' * 40}"), name="x", token="t")
    assert commit["spec"]["storage"]["data"]["download"]["git"][0]["commit"] == "a" * 40


@pytest.mark.parametrize(
    ("text", "repository", "branch"),
    [
        ("https://h/me/code", "https://h/me/code", None),
        ("https://h/me/code@main", "https://h/me/code", "main"),
        ("https://h/me/code.git@feature/lr/3", "https://h/me/code.git", "feature/lr/3"),
        ("https://ada@h/me/code", "https://ada@h/me/code", None),
        ("https://ada@h/code@feature/x", "https://ada@h/code", "feature/x"),
        ("https://h/@team/code", "https://h/@team/code", None),
        ("https://h/@team/code@v1.0", "https://h/@team/code", "v1.0"),
    ],
)
def test_a_branch_of_git_may_have_slashes(text: str, repository: str, branch: str | None) -> None:
    """``feature/x`` became a part of the address, which the download does not find."""
    spec = build(request(git=text), name="x", token="t")["spec"]
    (item,) = spec["storage"]["data"]["download"]["git"]
    assert (item["repository"], item.get("branch")) == (repository, branch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ()}, "no command"),
        ({"command": (["python", "a.py"],)}, r"command: expected texts, got \['python', 'a.py'\]"),
        ({"env": {"LR": 0.1}}, "env LR: expected a text, got 0.1"),
        ({"gpus": "two"}, "gpus: expected a whole number, got 'two'"),
        ({"gpus": 1.5}, "gpus: expected a whole number, got 1.5"),
        ({"gpus": 3, "replicas": 2, "ray": True}, "3 GPUs cannot be split evenly over 2 replicas"),
        ({"replicas": 2}, "a plain job is one pod"),
        ({"ray": True, "service": True}, "a service on Ray"),
        ({"port": 80}, "a job has no port"),
        ({"secrets": ("=x",)}, "secret =x: cannot be read"),
        ({"secrets": ("A=b",)}, "secret A=b: cannot be read"),
        ({"secrets": ("a:b",)}, "b is not an absolute path"),
        ({"storage": "big"}, "storage big: cannot be read"),
        (
            {"storage": "16GB:/data"},
            'storage 16GB:/data: cannot be read: "16GB" is not a quantity; write "16Gi", or "16G" for',
        ),
        ({"storage": "1Gi:data"}, "storage 1Gi:data: cannot be read"),
        ({"git": "git@github.com:me/code"}, "expected an address that starts with https"),
        ({"hf": ("org/model:big",)}, "hf org/model:big: cannot be read"),
    ],
)
def test_what_cannot_be_run_is_an_error_here(options: dict[str, Any], message: str) -> None:
    """Before anything is packed or sent, with what to do."""
    wanted = RunRequest(**{"command": ("x",), **options})

    def attempt() -> None:
        check(wanted)
        build(wanted, name="x", token="t")

    with pytest.raises(InvalidArgument, match=message) as failed:
        attempt()
    assert failed.value.next_step or "replicas" in message


def unpack(root: Path, *tools: str) -> tuple[int, str]:
    """Run the init container's script with these programs alone; exit code and standard error."""
    programs = root / "bin"
    programs.mkdir(exist_ok=True)
    for tool in tools:
        program = sys.executable if tool == "python3" else shutil.which(tool)
        (programs / tool).write_text(f'#!/bin/sh\nexec {program} "$@"\n', encoding="utf-8")
        (programs / tool).chmod(0o755)
    (root / "work").mkdir(exist_ok=True)
    script = UNPACK.replace(ARCHIVE_FOLDER, str(root)).replace(WORK_FOLDER, str(root / "work"))
    answer = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": str(programs)}, capture_output=True, check=False, text=True
    )
    return answer.returncode, answer.stderr


@pytest.mark.parametrize("tools", [("tar", "gzip"), ("python3",), ("tar", "python3"), ("busybox",)])
def test_the_folder_is_unpacked_with_tar_or_python(tmp_path: Path, tools: tuple[str, ...]) -> None:
    """Whichever the image has; tar alone, without gzip, does not help."""
    if shutil.which(tools[0]) is None:
        pytest.skip(f"no {tools[0]} here")
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "run.sh").write_text("echo", encoding="utf-8")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("run.sh")
    (tmp_path / "files.tar.gz").write_bytes(pack(source).content)
    if tools == ("busybox",):
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "tar").symlink_to(str(shutil.which("busybox")))
        tools = ()
    for _ in range(2):
        code, err = unpack(tmp_path, *tools)
        assert code == 0, err
        assert os.access(tmp_path / "work" / "run.sh", os.X_OK)
        assert (tmp_path / "work" / "link").is_symlink()
        assert (tmp_path / "work" / "empty").is_dir()
        # A pod that is started anew finds what the first start left, changed perhaps.
        (tmp_path / "work" / "run.sh").write_text("changed", encoding="utf-8")
        tools = ()
    assert (tmp_path / "work" / "run.sh").read_text() == "changed"


def test_an_image_without_tar_and_python_is_named_as_the_cause(tmp_path: Path) -> None:
    """The message becomes the container's, and the workload's."""
    (tmp_path / "files.tar.gz").write_bytes(b"x")
    code, err = unpack(tmp_path)
    assert code == 1
    assert err.startswith("the image has neither tar nor python3")


def test_a_broken_or_missing_archive_is_no_success(tmp_path: Path) -> None:
    """The command must not start in an empty folder."""
    code, err = unpack(tmp_path)
    assert code == 1
    assert "the ConfigMap with the folder is missing or empty" in err
    (tmp_path / "files.tar.gz").write_bytes(b"no archive")
    code, err = unpack(tmp_path, "tar", "gzip", "python3")
    assert code == 1
    assert "could not be unpacked" in err
