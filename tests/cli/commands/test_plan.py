"""``kaiwo plan`` without a cluster: objects on standard output, the verdict on standard error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.cli import kit
from kaiwo.cli.output.annotate import annotated
from kaiwo.plugin.rendering import RenderInput
from kaiwo.testing.overrides import override_methods

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.rendering import Rendered

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


NODE = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: one
    labels: {amd.com/gpu.product-name: AMD_Instinct_MI300X}
  status:
    allocatable: {amd.com/gpu: "8"}
    conditions: [{type: Ready, status: "True"}]
"""

pytestmark = pytest.mark.usefixtures("job_file")


def test_the_objects_are_printed_and_the_verdict_is_talk(cli: Cli) -> None:
    """Standard output is a manifest and nothing else; a missing cluster is reported with its consequences."""
    result = cli("plan", "-f", "job.yaml")
    assert result.code == 0
    (job,) = yaml.safe_load_all(result.out)
    assert (job["kind"], job["metadata"]["name"]) == ("Job", "train")
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["amd.com/gpu"] == "1"
    assert "planned without a cluster: defaults are assumed, GPU capacity is not checked" in result.err
    assert "job/train: would create Job train" in result.err


@pytest.mark.parametrize("words", [["--context", "typo"], ["--kubeconfig", "nowhere"]])
def test_a_cluster_that_is_named_must_be_found(cli: Cli, home: Path, words: list[str]) -> None:
    """A plan for no cluster would pass for one for that cluster; --offline asks for it."""
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text("current-context: ''\ncontexts: []\n")
    result = cli("plan", "-f", "job.yaml", *words)
    assert (result.code, result.out) == (1, "")
    assert words[1] in result.err
    assert "kaiwo plan --offline" in result.err
    assert cli("plan", "-f", "job.yaml", "--offline", *words).code == 0
    assert cli("plan", "-f", "job.yaml").code == 0


def test_privileges_in_an_embedded_template_are_reported_without_a_cluster(cli: Cli) -> None:
    """The namespace's label is not known, so it is a warning; it names the field and the label."""
    job = "job={spec: {template: {spec: {hostNetwork: true}}}}"
    result = cli("plan", "-f", "job.yaml", "--offline", "--set", job)
    assert result.code == 0, result.err
    assert "warning: job/train: spec.job.spec.template.spec.hostNetwork: must be false" in result.err
    assert "kaiwo.silogen.ai/allow-privileged=true" in result.err


def test_any_number_of_gpus_is_planned_when_no_nodes_are_known(cli: Cli) -> None:
    """Unknown nodes are no reason to refuse, also with a requested model."""
    result = cli("plan", "-f", "job.yaml", "--offline", "--set", "gpus=64", "--set", "gpuModels=[mi300x]")
    assert result.code == 0


def test_nodes_of_a_file_decide_whether_it_runs(cli: Cli) -> None:
    """What does not fit is refused with the reason and the nearest that fits, and exit code 1."""
    Path("nodes.yaml").write_text(NODE)
    assert cli("plan", "-f", "job.yaml", "--offline", "--nodes", "nodes.yaml").code == 0
    result = cli("plan", "-f", "job.yaml", "--offline", "--nodes", "nodes.yaml", "--set", "gpus=16")
    assert result.code == 1
    assert "job/train: would not run: GPUsExceedNode: asked for 16 amd GPUs" in result.err
    assert "nearest that fits: 8" in result.err


def test_a_cluster_without_nodes_can_be_assumed(cli: Cli) -> None:
    """``--nodes none`` is an empty cluster."""
    result = cli("plan", "-f", "job.yaml", "--offline", "--nodes", "none")
    assert result.code == 1
    assert "would not run: NoGPUs" in result.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "--nodes nodes.yaml: cannot be read"),
        ("kind: Pod\n", "--nodes nodes.yaml: no Node in this file"),
        ("a: [\n", "nodes.yaml:2:1: invalid YAML"),
    ],
)
def test_a_node_file_that_cannot_be_used_is_reported(cli: Cli, content: str | None, message: str) -> None:
    """With the command that writes a good one."""
    if content is not None:
        Path("nodes.yaml").write_text(content)
    result = cli("plan", "-f", "job.yaml", "--offline", "--nodes", "nodes.yaml")
    assert result.code == 2
    assert f"error: {message}" in result.err
    assert "kubectl get nodes -o yaml" in result.err


def test_explain_shows_where_each_value_comes_from(cli: Cli) -> None:
    """The origin stands at the value's line; the output stays the same YAML."""
    plain = cli("plan", "-f", "job.yaml", "--offline")
    explained = cli("plan", "-f", "job.yaml", "--offline", "--explain")
    lines = [line.strip() for line in explained.out.splitlines()]
    assert "image: example.org/train:1  # user: spec.image" in lines
    assert any(line.startswith("amd.com/gpu: '1'  # nodes: ") for line in lines)
    assert yaml.safe_load(explained.out) == yaml.safe_load(plain.out)


def test_explain_for_programs(cli: Cli) -> None:
    """With -o json each object comes with a mapping of paths to origins."""
    result = cli("plan", "-f", "job.yaml", "--offline", "--explain", "-o", "json")
    (entry,) = json.loads(result.out)
    assert entry["object"]["kind"] == "Job"
    assert entry["origins"]["spec.template.spec.containers[0].image"] == ["user", "spec.image"]


FETCHING = """\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
metadata:
  name: fetch
spec:
  image: example.org/train:1
  storage:
    storageEnabled: true
    data:
      storageSize: 1Gi
      download:
        git:
          - repository: https://git.example.org/r.git
            token: {secretName: login, secretKey: token}
            targetPath: src
"""


def test_downloads_are_shown_before_what_waits_for_them(cli: Cli) -> None:
    """Claim, ConfigMap and download Job first; what each item fetches in one line, Secrets by name."""
    Path("fetch.yaml").write_text(FETCHING)
    result = cli("plan", "-f", "fetch.yaml", "--offline", "--explain")
    assert result.code == 0
    objects = [(obj["kind"], obj["metadata"]["name"]) for obj in yaml.safe_load_all(result.out)]
    assert objects == [
        ("PersistentVolumeClaim", "fetch-data"),
        ("ConfigMap", "fetch-download"),
        ("Job", "fetch-download"),
        ("Job", "fetch"),
    ]
    assert "# config: KaiwoConfig storage.downloadImage" in result.out
    assert "config.yaml: |  # user: spec.storage.data.download.git" in result.out
    assert (
        "job/fetch: would create PersistentVolumeClaim fetch-data, ConfigMap fetch-download, Job "
        "fetch-download; when the download has succeeded, Job fetch"
    ) in result.err
    assert (
        "job/fetch: would download git[0]: repository=https://git.example.org/r.git "
        "targetPath=src token(secret login/token)"
    ) in result.err


def test_a_warning_is_reported_once(cli: Cli) -> None:
    """With the position in the file; problems that only planning finds are reported too."""
    more = f"branch: main\n            commit: {'a1' * 20}\n            targetPath: src"
    text = FETCHING.replace("targetPath: src", more).replace("spec:\n", "spec:\n  gpuModels: [mi300x]\n", 1)
    Path("fetch.yaml").write_text(text)
    result = cli("plan", "-f", "fetch.yaml", "--offline")
    assert result.code == 0
    warnings = [line for line in result.err.splitlines() if line.startswith("warning: ")]
    commit = [line for line in warnings if "git[0].commit: is ignored" in line]
    assert [line.partition(":17:")[0] for line in commit] == ["warning: fetch.yaml"]
    assert [line for line in warnings if "spec.gpuModels is ignored" in line]


@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        ("KaiwoJob", "replicas: 3, gpus: 1, image: i, entrypoint: x", "spec.replicas"),
        ("KaiwoJob", "gpus: 1, image: i, entrypoint: x, storage: {data: {storageSize: 1Gi}}", "spec.storage"),
        (
            "KaiwoService",
            "ray: true, gpus: 1, entrypoint: x, serveConfigV2: 'applications: [{import_path: a.b}]'",
            "spec.entrypoint",
        ),
    ],
)
def test_a_problem_of_checking_and_planning_is_reported_once(
    cli: Cli, kind: str, fields: str, path: str
) -> None:
    """One fact, one line, whoever found it."""
    head = f"apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: {kind}\nmetadata: {{name: once}}\n"
    Path("once.yaml").write_text(f"{head}spec: {{{fields}, user: a@b.c}}\n")
    result = cli("plan", "-f", "once.yaml", "--offline")
    assert result.code == 0, result.err
    assert sum(path in line for line in result.err.splitlines() if line.startswith("warning: ")) == 1


@pytest.mark.parametrize("command", [("plan", "--offline"), ("submit", "--dry-run")])
@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("https://git", "ssh://git", "is not a URL that starts with http:// or https://"),
        ("targetPath: src", "targetPath: ../src", "fetch.yaml:15:13: "),
        ("            targetPath: src\n", "", "fetch.yaml:13:13: "),
        ("secretKey: token", "secretKye: token", "fetch.yaml:14:40: "),
        ("git:\n", "gti:\n", "fetch.yaml:12:9: spec.storage.data.download.gti"),
        ("      storageSize: 1Gi\n", "", "spec.storage.data.storageSize"),
    ],
)
def test_a_bad_source_is_refused_where_it_stands(
    cli: Cli, command: tuple[str, ...], before: str, after: str, words: str
) -> None:
    """Line and column of the mistake in the file, and its field; nothing is sent."""
    assert before in FETCHING
    Path("fetch.yaml").write_text(FETCHING.replace(before, after))
    result = cli(*command, "-f", "fetch.yaml")
    assert result.code == 2
    assert words in result.err


def test_plan_refuses_what_submit_refuses(cli: Cli) -> None:
    """The same checks with the same words."""
    result = cli("plan", "-f", "job.yaml", "--offline", "--set", "gpus=-1")
    assert result.code == 2
    assert result.err.splitlines()[0].startswith("--set gpus: spec.gpus: -1 is less than 0")
    assert result.err.splitlines()[-1] == "error: 1 problem; nothing was planned"


def test_plan_with_other_plugins(cli: Cli) -> None:
    """Without the vendor's plugin the plan says what the operator would say."""
    result = cli("plan", "-f", "job.yaml", "--offline", "--plugins", "batch_job")
    assert result.code == 1
    assert "would not run: VendorNotLoaded" in result.err


texts = st.text(max_size=12)
objects = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"name": texts}),
        "spec": st.dictionaries(texts, texts | st.lists(texts | st.integers(), max_size=3), max_size=4),
    }
)


@given(objects, texts)
def test_comments_never_change_what_is_meant(obj: dict[str, Any], words: str) -> None:
    """Whatever an object holds and a plugin says of it, the annotated YAML reads back as the object."""
    paths = ["metadata", "metadata.name", "spec", *(f"spec.{key}" for key in obj["spec"])]
    paths += [f"spec.{key}[0]" for key in obj["spec"]]
    origins = dict.fromkeys(paths, ("plugin", words))
    assert yaml.safe_load(annotated(obj, origins)) == obj


def test_a_plugin_that_hangs_is_reported_and_ended(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever; the line names the plugin, as the workload's status would."""
    found = kit.plugins("batch_job")
    (plugin,) = found.loaded
    (backend,) = plugin.backends

    def render(inp: RenderInput) -> Rendered:
        while isinstance(inp, RenderInput):
            pass
        raise AssertionError

    hanging = replace(plugin, backends=(override_methods(backend, render=render),))
    monkeypatch.setattr(kit, "plugins", lambda *_: replace(found, loaded=(hanging,)))
    monkeypatch.setattr("kaiwo.cli.planning._PLUGIN_SECONDS", 0.1)
    result = cli("plan", "--offline", "-f", "job.yaml", "--set", "gpus=0")
    assert (result.code, result.out) == (1, "")
    assert "would not run: PluginError: plugin batch_job failed to render this workload: " in result.err
