"""Every problem of every document is reported with its line before anything is sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaiwo.api.validate import Validator
from kaiwo.cli.api_rejections import rejections
from kaiwo.cli.input_files.file_reading import API_VERSION, read_files
from kaiwo.cli.input_files.overrides import override
from kaiwo.cli.input_files.validation import check_workloads
from kaiwo.cli.input_files.workload_file import duplicates
from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.output.serialization import to_json
from kaiwo.client.user_config import UserConfig
from kaiwo.engine.errors import ServerUnavailable
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


HEAD = "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoJob\nmetadata:\n  name: train\n"


def problems(result_err: str) -> list[str]:
    """The problems of a refused call; the last line counts them."""
    *lines, last = result_err.splitlines()
    assert last == f"error: {len(lines)} problem{'s' if len(lines) > 1 else ''}; nothing was sent"
    return lines


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("spec:\n  gpu: 2\n", 'job.yaml:6:3: spec.gpu: unknown field; did you mean "gpus"?'),
        ("spec:\n  gpus: -1\n", "job.yaml:6:3: spec.gpus: -1 is less than 0; the smallest value is 0"),
        ("spec:\n  gpus: '2'\n", 'job.yaml:6:3: spec.gpus: expected a whole number, got the string "2"; '),
        ("spec:\n  gpus: 1.5\n", "job.yaml:6:3: spec.gpus: expected a whole number, got the number 1.5; "),
        ("spec:\n  image: 5\n", "job.yaml:6:3: spec.image: expected a string, got the number 5; quote it"),
        (
            "spec:\n  env:\n  - name: A\n    value: no\n",
            'job.yaml:8:5: spec.env[0].value: expected a string, got the boolean no; quote it: "no"',
        ),
        (
            "spec:\n  env:\n  - {name: A, valu: x}\n",
            'job.yaml:7:15: spec.env[0].valu: unknown field; did you mean "value"?',
        ),
        ("spec:\n  env:\n  - value: x\n", "job.yaml:7:5: spec.env[0].name: is required; add it"),
        ("spec: [1]\n", "job.yaml:5:1: spec: "),
        ("spec:\n  gpus: 1\n  gpus: 2\n", "job.yaml:7:3: spec.gpus: the field is already given in line 6; "),
        ("spec:\n\tgpus: 1\n", "job.yaml:6:1: a tab cannot indent YAML; use spaces"),
        ("spec:\n  gpusPerReplica: 2\n", "job.yaml:6:3: spec.gpusPerReplica: "),
    ],
)
def test_a_problem_is_reported_at_its_line_and_column(cli: Cli, spec: str, line: str) -> None:
    """File, line, column, field path, what is wrong and what to do, in one line; exit code 2."""
    Path("job.yaml").write_text(HEAD + spec)
    result = cli("submit", "-f", "job.yaml")
    assert result.code == 2
    (found,) = problems(result.err)
    assert found.startswith(line)
    assert result.out == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
            'x.yaml:1:1: ConfigMap "x" (v1) is not a Kaiwo workload; send it with kubectl apply ',
        ),
        (
            "apiVersion: config.kaiwo.silogen.ai/v1alpha1\nkind: KaiwoConfig\nmetadata: {name: kaiwo}\n",
            'x.yaml:1:1: KaiwoConfig "kaiwo" (config.kaiwo.silogen.ai/v1alpha1) is not a Kaiwo workload; ',
        ),
        (
            "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoQueueConfig\n",
            "x.yaml:2:1: kind: KaiwoQueueConfig is not a workload; send it with kubectl apply --server-side ",
        ),
        (
            "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoConfig\n",
            "x.yaml:2:1: kind: KaiwoConfig is not a workload; send it with kubectl apply --server-side ",
        ),
        (
            "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoJbo\n",
            'x.yaml:2:1: kind: unknown kind "KaiwoJbo" (known: KaiwoJob, KaiwoService); did you',
        ),
        (
            "apiVersion: kaiwo.silogen.ai/v1\nkind: KaiwoJob\n",
            'x.yaml:1:1: apiVersion: unknown version "kaiwo.silogen.ai/v1"; write kaiwo.silogen.ai/v1alpha1',
        ),
        (
            "apiVersion: kaiwo.ai/v1alpha1\nkind: KaiwoJob\n",
            'x.yaml:1:1: apiVersion: unknown version "kaiwo.ai/v1alpha1"; write kaiwo.silogen.ai/v1alpha1',
        ),
        ("kind: KaiwoJob\n", "x.yaml:1:1: apiVersion: is required; write kaiwo.silogen.ai/v1alpha1"),
        ("metadata: {}\n", "x.yaml:1:1: kind: is required; write one of KaiwoJob, KaiwoService"),
        ("just words\n", 'x.yaml:1:1: expected a workload, got the string "just words"; '),
        ("- 1\n", "x.yaml:1:1: expected a workload, got a list; a workload starts with apiVersion and kind"),
        ("", "x.yaml: no workload in this file; a workload starts with apiVersion and kind"),
        (
            "apiVersion: v1\nkind: List\nitems: [3]\n",
            "x.yaml:3:9: expected a workload, got the number 3; a workload starts with apiVersion and kind",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: []\n",
            "x.yaml: no workload in this file; a workload starts with apiVersion and kind",
        ),
        ("---\n# nothing\n", "x.yaml: no workload in this file; a workload starts with apiVersion and kind"),
    ],
)
def test_what_is_no_workload_is_refused_by_name(cli: Cli, text: str, line: str) -> None:
    """The message says what the document is and how it would be sent."""
    Path("x.yaml").write_text(text)
    result = cli("submit", "-f", "x.yaml")
    assert result.code == 2
    (found,) = problems(result.err)
    assert found.startswith(line)


def test_the_other_spellings_of_the_option_mean_the_same(cli: Cli, job_file: Path) -> None:
    """-f, --file and --filename."""
    for option in ("-f", "--file", "--filename"):
        assert cli("submit", option, str(job_file), "--dry-run=client").code == 0


@pytest.mark.usefixtures("job_file")
def test_replicas_of_a_plain_job_are_warned_of_by_its_backend(cli: Cli) -> None:
    """Once, before anything is sent; nothing is said where another backend uses them."""
    result = cli("submit", "-f", "job.yaml", "--dry-run=client", "--set", "replicas=3")
    assert result.err.count("spec.replicas: is ignored: a batch job is one pod") == 1
    result = cli("submit", "-f", "job.yaml", "--dry-run=client", "--set", "replicas=3", "--set", "ray=true")
    assert (result.code, "is ignored" in result.err) == (0, False)


@pytest.mark.parametrize("dry_run", [["--dry-run=client"], ["--dry-run=client", "-q"]])
def test_gpus_among_the_resources_are_warned_of_before_anything_is_sent(cli: Cli, dry_run: list[str]) -> None:
    """They are ignored, and whoever wrote them must not find out from the status of a waiting job."""
    Path("job.yaml").write_text(HEAD + "spec:\n  gpus: 1\n  resources: {limits: {amd.com/gpu: 4}}\n")
    result = cli("submit", "-f", "job.yaml", *dry_run)
    assert result.code == 0
    warned = "warning: job/train: spec.resources: amd.com/gpu is ignored; request GPUs with spec.gpus\n"
    assert result.err.count(warned) == (0 if "-q" in dry_run else 1)


DOWNLOAD = "spec:\n  storage:\n    storageEnabled: true\n    data:\n      mountPath: /data\n      download:\n"


def test_a_key_that_is_written_out_is_not_repeated(cli: Cli) -> None:
    """Where a Secret is to be named somebody writes the key itself; it must not end in a log."""
    item = "        s3:\n        - endpointUrl: https://s3.example.org\n          secretKey: AKIACANARY\n"
    Path("job.yaml").write_text(HEAD + DOWNLOAD + item)
    result = cli("submit", "-f", "job.yaml", "--dry-run=client")
    assert result.code == 2
    assert "secretKey: expected a mapping, got a string; " in result.err
    assert "CANARY" not in result.err


def test_no_sentence_of_a_library_reaches_the_user(cli: Cli) -> None:
    """Python's types mean nothing to who wrote YAML."""
    item = "        s3:\n        - endpointUrl: https://s3.example.org\n          buckets: []\n"
    Path("job.yaml").write_text(HEAD + DOWNLOAD + item)
    result = cli("submit", "-f", "job.yaml", "--dry-run=client")
    assert "download.s3[0].buckets: has 0 items, fewer than 1; " in result.err
    assert "tuple" not in result.err


def test_a_mistake_in_an_entry_is_no_mistake_of_its_list(cli: Cli) -> None:
    """The list has the entry, so that only what is wrong with the entry is reported."""
    item = (
        "        s3:\n        - endpointUrl: https://s3.example.org\n          buckets:\n"
        "          - {name: b, files: [{path: a, targetPath: ../a}]}\n"
    )
    Path("job.yaml").write_text(HEAD + DOWNLOAD + item)
    result = cli("submit", "-f", "job.yaml", "--dry-run=client")
    assert "buckets[0].files[0].targetPath: leaves the volume; " in result.err
    assert "0 items" not in result.err


def test_what_came_from_standard_input_is_sent_from_there(cli: Cli) -> None:
    """The next step can be typed as it stands; no file is called stdin."""
    pod = b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
    assert "kubectl apply --server-side -f -\n" in cli("submit", "-f", "-", stdin=pod).err


def test_a_name_may_be_generated(cli: Cli) -> None:
    """Each submission is another workload then; a plan shows the form of the name."""
    Path("job.yaml").write_text(HEAD.replace("name: train", f"generateName: {'n' * 70}") + "spec: {}\n")
    names = {cli("submit", "-f", "job.yaml", "--dry-run=client", "-o", "name").out for _ in range(2)}
    assert len(names) == 2
    for name in names:
        assert re.fullmatch(r"kaiwojob\.kaiwo\.silogen\.ai/n{58}[a-z0-9]{5}\n", name)
    planned = cli("plan", "-f", "job.yaml", "--offline", "-o", "name")
    assert (planned.code, planned.out) == (0, f"job.batch/{'n' * 58}xxxxx\n")


def test_all_problems_of_all_documents_and_files_are_reported_at_once(cli: Cli) -> None:
    """One run of the command shows everything there is to repair, in the order of the files."""
    Path("a.yaml").write_text(HEAD + "spec:\n  image: 5\n  gpu: 1\n---\nkind: Pod\napiVersion: v1\n")
    Path("b.yaml").write_text(HEAD.replace("train", "Train_2") + "spec:\n  gpus: 2147483648\n")
    result = cli("submit", "-f", "a.yaml", "-f", "b.yaml", "-f", "missing.yaml")
    starts = [line.split(": ")[0] for line in problems(result.err)]
    assert starts == ["a.yaml:6:3", "a.yaml:7:3", "a.yaml:9:1", "b.yaml:4:3", "b.yaml:6:3", "missing.yaml"]


def test_standard_input_is_read_for_dash_and_for_double_dash(cli: Cli) -> None:
    """``-f -`` and ``-f --`` mean the same; positions are those of stdin."""
    for dash in ("-", "--"):
        result = cli("submit", "-f", dash, stdin=(HEAD + "spec: {gpu: 1}\n").encode())
        assert problems(result.err)[0].startswith("stdin:5:8: spec.gpu: ")


def test_standard_input_can_be_named_only_once(cli: Cli) -> None:
    """The second read would find nothing and seem to succeed."""
    result = cli("submit", "-f", "-", "-f", "--", stdin=(HEAD + "spec: {}\n").encode())
    assert problems(result.err) == ["-f --: standard input can be read only once"]


def test_a_directory_gives_its_manifests_in_order(cli: Cli) -> None:
    """YAML and JSON files, sorted by name; other files and subdirectories are not read."""
    Path("jobs").mkdir()
    Path("jobs/b.yml").write_text(HEAD.replace("train", "b"))
    Path("jobs/a.yaml").write_text(HEAD.replace("train", "a"))
    Path("jobs/c.json").write_text(
        '{"apiVersion": "kaiwo.silogen.ai/v1alpha1",\n\t"kind": "KaiwoJob", "metadata": {"name": "c"}}'
    )
    Path("jobs/notes.txt").write_text("not read: [")
    result = cli("submit", "-f", "jobs", "--dry-run=client", "-o", "name")
    assert result.out.split() == [f"kaiwojob.kaiwo.silogen.ai/{name}" for name in "abc"]
    assert result.code == 0


def test_an_empty_directory_is_reported(cli: Cli) -> None:
    """Sending nothing must not be reported as success."""
    Path("jobs").mkdir()
    result = cli("submit", "-f", "jobs")
    assert problems(result.err) == ["jobs: no file with the suffix .yaml, .yml, .json in this directory"]


def test_a_field_of_a_plugin_that_is_not_selected_is_reported_with_its_package(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no typing error, so no other field is offered."""
    monkeypatch.setenv("KAIWO_PLUGINS", "batch_job")
    Path("job.yaml").write_text(HEAD + "spec:\n  rayJob: {}\n")
    (problem,) = problems(cli("submit", "-f", "job.yaml").err)
    assert problem.startswith("job.yaml:6:3: spec.rayJob: unknown field; ")
    assert problem.endswith(
        "; plugin ray_job of kaiwo-ray-job serves it and is installed, but not selected; select ray_job"
    )


def test_a_field_that_the_cluster_lacks_is_reported_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command knows plugins that the cluster does not have; the API server's own words name no line."""
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(HEAD + "spec:\n  rayJob: {}\n")
    (read,), _ = read_files(["job.yaml"])
    said = "failed to create typed patch object (team/train): .spec.rayJob: field not declared in schema"
    (problem,) = rejections(read, ServerUnavailable(500, "", said), load())
    assert str(problem) == (
        "job.yaml:6:3: spec.rayJob: unknown field in this cluster; remove the field, or ask an "
        "administrator to install plugin ray_job of kaiwo-ray-job in the cluster"
    )


def test_one_unreadable_file_of_a_directory_is_reported_by_its_name(cli: Cli) -> None:
    """A broken link hides neither itself nor what else is wrong beside it."""
    Path("jobs").mkdir()
    Path("jobs/a.yaml").symlink_to("nowhere")
    Path("jobs/b.yaml").write_text("")
    Path("jobs/c.yaml").mkdir()
    assert problems(cli("submit", "-f", "jobs").err) == [
        "jobs/a.yaml: cannot be read: No such file or directory",
        "jobs/b.yaml: no workload in this file; a workload starts with apiVersion and kind",
    ]


def test_an_empty_name_is_not_the_working_directory(cli: Cli, job_file: Path) -> None:
    """A script whose variable is unset sends nothing."""
    assert job_file.exists()
    result = cli("submit", "-f", "", "--dry-run=client")
    assert result.code == 2
    assert problems(result.err) == ["-f: expected a name, got an empty string; name a file, a directory or -"]


def test_an_address_is_not_fetched(cli: Cli) -> None:
    """The message shows how to do it."""
    url = "https://example.org/job.yaml"
    result = cli("submit", "-f", url)
    assert problems(result.err) == [f"{url}: URLs are not fetched; curl -fsSL {url} | kaiwo submit -f -"]


def test_invalid_utf8_is_reported_at_its_byte(cli: Cli) -> None:
    """A file in an old encoding is refused where the first foreign byte is."""
    Path("job.yaml").write_bytes(HEAD.encode() + b"spec:\n  user: M\xfcller\n")
    result = cli("submit", "-f", "job.yaml")
    assert problems(result.err) == ["job.yaml:6:10: not UTF-8 text; save the file as UTF-8"]


def test_utf16_with_a_byte_order_mark_is_read(cli: Cli) -> None:
    """Windows editors write it."""
    Path("job.yaml").write_bytes(HEAD.encode("utf-16"))
    assert cli("submit", "-f", "job.yaml", "--dry-run=client").code == 0


def test_the_same_workload_twice_is_refused(cli: Cli) -> None:
    """Only the last would count; also when a flag makes the namespaces equal."""
    Path("a.yaml").write_text(HEAD + "  namespace: one\n---\n" + HEAD + "  namespace: two\n")
    assert cli("submit", "-f", "a.yaml", "--dry-run=client").code == 0
    result = cli("submit", "-f", "a.yaml", "--dry-run=client", "-n", "same")
    (problem,) = problems(result.err)
    assert problem.startswith('a.yaml:7:1: KaiwoJob "train" is already given in a.yaml, line 1; ')


def test_a_list_is_taken_apart(cli: Cli) -> None:
    """What ``kaiwo list -o yaml`` wrote can be sent again, with positions inside the list."""
    item = "\n".join(f"  {line}" for line in (HEAD + "spec: {gpu: 1}").splitlines())
    Path("list.yaml").write_text(f"apiVersion: v1\nkind: List\nitems:\n-{item[1:]}\n")
    result = cli("submit", "-f", "list.yaml")
    assert problems(result.err)[0].startswith("list.yaml:8:10: spec.gpu: ")


def test_what_the_server_added_is_not_sent_back(cli: Cli) -> None:
    """An object read from a cluster can be sent to another one."""
    added = "  uid: abc\n  resourceVersion: '7'\n  managedFields: []\n  generation: 3\n"
    Path("job.yaml").write_text(HEAD + added + "status: {status: COMPLETE}\n")
    result = cli("submit", "-f", "job.yaml", "--dry-run=client", "-o", "json")
    assert result.code == 0
    for word in ("uid", "resourceVersion", "managedFields", "generation", "status"):
        assert word not in result.out


texts = st.text(max_size=300).map(lambda text: (HEAD + text).encode("utf-8", "replace"))


@settings(max_examples=200)
@given(
    st.binary(max_size=300) | st.text(max_size=300).map(lambda text: (HEAD + text).encode("utf-8", "replace"))
)
def test_no_bytes_crash_the_reader(tmp_path: Path, content: bytes) -> None:
    """Any file is read or refused with a message that names it."""
    path = tmp_path / "fuzz.yaml"
    path.write_bytes(content)
    manifests, problems = read_files([str(path)])
    assert manifests or problems
    assert all(str(problem).startswith(str(path)) for problem in problems)
    assert all("\n" not in problem.problem.message for problem in problems)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
known_fields = st.sampled_from(
    [
        "user",
        "gpus",
        "gpuVendor",
        "replicas",
        "gpusPerReplica",
        "image",
        "env",
        "resources",
        "storage",
        "secretVolumes",
        "entrypoint",
        "ray",
        "job",
        "rayJob",
        "duration",
        "priorityClass",
        "clusterQueue",
        "imagePullSecrets",
        "gpuModels",
        "podTemplateSpecLabels",
    ]
)
wild_objects = st.fixed_dictionaries(
    {
        "apiVersion": st.just(API_VERSION),
        "kind": st.sampled_from(["KaiwoJob", "KaiwoService"]),
    },
    optional={
        "metadata": json_values | st.fixed_dictionaries({"name": json_values, "namespace": json_values}),
        "spec": json_values | st.dictionaries(known_fields, json_values, max_size=4),
        "status": json_values,
    },
)


@pytest.fixture(scope="module")
def validator() -> Validator:
    """Checks against the fields of all installed plugins."""
    return Validator(load().fields())


@given(wild_objects)
def test_no_object_crashes_the_checks(tmp_path: Path, validator: Validator, obj: dict[str, Any]) -> None:
    """Whatever stands where, the answer is yes or a list of problems, each at a line of the file."""
    path = tmp_path / "fuzz.json"
    path.write_text(to_json(obj))
    manifests, problems = read_files([str(path)])
    config = UserConfig(user="jane", namespace="team")
    override(manifests, user=None, queue="blue", namespace=None, config=config)
    with click.Context(click.Command("kaiwo"), obj=GlobalOptions(verbosity=-1)):
        problems += duplicates(manifests) + check_workloads(manifests, validator)
    for problem in problems:
        text = str(problem)
        assert text.startswith((f"{path}:", "--queue: "))
        assert text.isprintable()
