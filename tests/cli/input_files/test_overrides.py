"""Flags win over the manifest, the manifest over kaiwoconfig.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


def sent(cli: Cli, *args: str) -> dict[str, Any]:
    """The object that would be sent."""
    result = cli("submit", "-f", "job.yaml", "--dry-run=client", "-o", "json", *args)
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert isinstance(found, dict)
    return found


def write_config(text: str, path: str = "kaiwoconfig.yaml") -> str:
    """A kaiwoconfig.yaml; returns its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


@pytest.mark.usefixtures("job_file")
def test_the_config_file_supplies_values_that_are_not_set(cli: Cli) -> None:
    """user, clusterQueue and namespace come from the file when neither flag nor manifest names them."""
    config = write_config("user: jane\nclusterQueue: blue\nnamespace: team\n")
    obj = sent(cli, "--config", config)
    assert (obj["spec"]["user"], obj["spec"]["clusterQueue"]) == ("jane", "blue")
    assert obj["metadata"]["namespace"] == "team"


def test_the_manifest_wins_over_the_config_file(cli: Cli, job_file: Path) -> None:
    """What a manifest says is never replaced by the file."""
    text = job_file.read_text().replace("spec:", "  namespace: mine\nspec:\n  user: joe\n  clusterQueue: red")
    job_file.write_text(text)
    config = write_config("user: jane\nclusterQueue: blue\nnamespace: team\n")
    obj = sent(cli, "--config", config)
    assert (obj["spec"]["user"], obj["spec"]["clusterQueue"]) == ("joe", "red")
    assert obj["metadata"]["namespace"] == "mine"


def test_flags_win_over_the_manifest(cli: Cli, job_file: Path) -> None:
    """--user, --queue and -n replace what the manifest says."""
    text = job_file.read_text().replace("spec:", "  namespace: mine\nspec:\n  user: joe\n  clusterQueue: red")
    job_file.write_text(text)
    config = write_config("user: jane\nclusterQueue: blue\nnamespace: team\n")
    obj = sent(cli, "--config", config, "--user", "ann", "--queue", "green", "-n", "hers")
    assert (obj["spec"]["user"], obj["spec"]["clusterQueue"]) == ("ann", "green")
    assert obj["metadata"]["namespace"] == "hers"


@pytest.mark.usefixtures("job_file")
def test_an_unset_value_leaves_the_clusters_default(cli: Cli) -> None:
    """Without flag, manifest and file no user or queue is sent."""
    obj = sent(cli)
    assert "user" not in obj["spec"]
    assert "clusterQueue" not in obj["spec"]


@pytest.mark.usefixtures("job_file")
def test_the_config_file_is_found_in_this_order(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--config, then KAIWOCONFIG, then ~/.config/kaiwo/kaiwoconfig.yaml."""
    write_config("user: usual\n", str(home / ".config/kaiwo/kaiwoconfig.yaml"))
    assert sent(cli)["spec"]["user"] == "usual"
    monkeypatch.setenv("KAIWOCONFIG", write_config("user: environment\n", "env.yaml"))
    assert sent(cli)["spec"]["user"] == "environment"
    assert sent(cli, "--config", write_config("user: flag\n", "flag.yaml"))["spec"]["user"] == "flag"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("usr: jane\n", 'c.yaml:1:1: usr: unknown key; did you mean "user"?'),
        ("queue: blue\n", 'c.yaml:1:1: queue: unknown key; did you mean "clusterQueue"?'),
        ("x: 1\n", "c.yaml:1:1: x: unknown key; known: user, clusterQueue, namespace"),
        ("user: 007\n", 'c.yaml:1:1: user: expected a string, got the number 007; quote it: "007"'),
        ("user: ''\n", "c.yaml:1:1: user: empty; give a value or remove the line"),
        ("user: a\nuser: b\n", "c.yaml:2:1: user: the field is already given in line 1; remove one of them"),
        ("- user\n", "c.yaml: expected keys and values, got a list"),
        ("user: a\n---\nuser: b\n", "c.yaml: expected keys and values, got several documents"),
        ("user: [\n", "c.yaml:2:1: invalid YAML: "),
    ],
)
@pytest.mark.usefixtures("job_file")
def test_a_config_file_that_cannot_be_used_is_reported(cli: Cli, text: str, message: str) -> None:
    """Line, column, and the nearest key; exit code 2 and nothing sent."""
    Path("c.yaml").write_text(text)
    result = cli("submit", "-f", "job.yaml", "--dry-run=client", "--config", "c.yaml")
    assert result.code == 2
    assert result.err.startswith(f"error: {message}")


@pytest.mark.usefixtures("job_file")
def test_a_named_config_file_must_exist(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt path must not silently mean no file."""
    result = cli("submit", "-f", "job.yaml", "--config", "nope.yaml")
    assert result.err.startswith("error: nope.yaml: no such file (--config)")
    monkeypatch.setenv("KAIWOCONFIG", "gone.yaml")
    result = cli("submit", "-f", "job.yaml")
    assert result.err.startswith("error: gone.yaml: no such file (KAIWOCONFIG)")
    assert result.code == 2


@pytest.mark.parametrize(
    ("flag", "where", "value"),
    [
        ("gpus=4", ("spec", "gpus"), 4),
        ("spec.gpus=4", ("spec", "gpus"), 4),
        ("metadata.name=other", ("metadata", "name"), "other"),
        ('metadata.labels["example.org/team"]=blue', ("metadata", "labels", "example.org/team"), "blue"),
        ("env[0].name=A", ("spec", "env", 0, "name"), "A"),
        ("entrypoint=[ -f x ] && y", ("spec", "entrypoint"), "[ -f x ] && y"),
        ('version="1.0"', ("spec", "version"), "1.0"),
        ("gpuModels=[mi300x, mi250]", ("spec", "gpuModels"), ["mi300x", "mi250"]),
        ("storage.data.mountPath=/d", ("spec", "storage", "data", "mountPath"), "/d"),
        ("version=a=b", ("spec", "version"), "a=b"),
    ],
)
@pytest.mark.usefixtures("job_file")
def test_set_changes_a_field(cli: Cli, flag: str, where: tuple[str | int, ...], value: object) -> None:
    """Paths start at spec or at the object's root, are created as needed; values are YAML, else text."""
    found: Any = sent(cli, "--set", flag)
    for part in where:
        found = found[part]
    assert found == value


@pytest.mark.usefixtures("job_file")
def test_set_to_nothing_removes_a_field(cli: Cli) -> None:
    """``image=`` and ``image=null`` take the field away."""
    assert "image" not in sent(cli, "--set", "image=")["spec"]
    assert "image" not in sent(cli, "--set", "image=null")["spec"]


@pytest.mark.usefixtures("job_file")
def test_an_invalid_set_value_is_reported_for_the_flag(cli: Cli) -> None:
    """A problem that a flag caused is not blamed on a line of the file."""
    result = cli("submit", "-f", "job.yaml", "--dry-run=client", "--set", "gpus=-1")
    assert result.err.startswith("--set gpus: spec.gpus: -1 is less than 0")
    result = cli("submit", "-f", "job.yaml", "--dry-run=client", "--queue", "No Queue")
    assert result.err.startswith("--queue: spec.clusterQueue: ")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("gpus", "--set gpus: expected FIELD=VALUE"),
        ("=4", "--set =4: expected FIELD=VALUE"),
        ("status.status=RUNNING", "--set status.status=RUNNING: status is written by the operator"),
        ("gpus.x=1", "--set gpus.x: spec.gpus is neither a mapping nor a list"),
        ("env[1].name=A", "--set env[1].name: spec.env is a list of 0; write spec.env[0]\n"),
        ("spec[0]=1", "--set spec[0]: spec is a mapping; write spec.NAME"),
    ],
)
@pytest.mark.usefixtures("job_file")
def test_a_set_that_goes_nowhere_is_refused(cli: Cli, flag: str, message: str) -> None:
    """The message shows what stands at the path and how to write it."""
    result = cli("submit", "-f", "job.yaml", "--dry-run=client", "--set", flag)
    assert result.code == 2
    assert result.err.startswith(f"error: {message}")
