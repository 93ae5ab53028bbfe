"""``kaiwo run`` without a cluster: what would be sent, and what is rejected here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


@pytest.fixture
def folder(home: Path) -> Path:
    """The working directory, with a program."""
    assert home.is_dir()
    work = Path.cwd()
    (work / "train.py").write_text("print(1)", encoding="utf-8")
    return work


def test_a_dry_run_shows_everything(cli: Cli, folder: Path) -> None:
    """The manifest is the data; the files are named, and what is left out."""
    (folder / ".env").write_text("TOKEN=x", encoding="utf-8")
    result = cli(
        "run", "--dry-run", "--gpus", "2", "--image", "x", "--", "python", "train.py", "--lr", "3e-4"
    )
    assert result.code == 0
    manifest = yaml.safe_load(result.out)
    assert manifest["spec"]["entrypoint"] == "exec python train.py --lr 3e-4"
    assert manifest["metadata"]["name"].startswith("train-")
    assert "  train.py\n" in result.err
    assert "warning: .env is left out: its name is that of a secret" in result.err
    assert "TOKEN" not in result.out


def test_the_number_of_files_agrees_with_its_noun(cli: Cli, folder: Path) -> None:
    """One file, two files."""
    assert "shipping 1 file (" in cli("run", "--dry-run", "--", "python", "train.py").err
    (folder / "data.py").write_text("", encoding="utf-8")
    assert "shipping 2 files (" in cli("run", "--dry-run", "--", "python", "train.py").err


def test_options_of_the_command_need_no_separator(cli: Cli, folder: Path) -> None:
    """What follows the first word belongs to the command, as with docker and kubectl."""
    assert folder.is_dir()
    result = cli("run", "--dry-run", "--no-sync", "--image", "x", "python", "train.py", "--gpus", "5", "-q")
    manifest = yaml.safe_load(result.out)
    assert manifest["spec"]["entrypoint"] == "exec python train.py --gpus 5 -q"
    assert "gpus" not in manifest["spec"]
    assert "job" not in manifest["spec"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("python", "train.py", "--gpus", "5", "--image=y", "--lr", "3", "--gpus", "6"), "--gpus, --image"),
        (("--", "python", "train.py", "--gpus", "5"), ""),
        (("python", "train.py", "--lr", "3", "-d"), ""),
    ],
)
def test_options_after_the_command_that_are_ones_of_run_are_warned_about(
    cli: Cli, folder: Path, words: tuple[str, ...], named: str
) -> None:
    """They are the command's, which somebody who forgot the order does not see before the job runs."""
    assert folder.is_dir()
    result = cli("run", "--dry-run", "--no-sync", "--image", "x", *words)
    assert result.code == 0
    warned = [line for line in result.err.splitlines() if line.startswith("warning: --")]
    assert [line.partition(" after the command")[0] for line in warned] == (
        [f"warning: {named}"] if named else []
    )


def test_kaiwoconfig_fills_in_user_and_queue(cli: Cli, folder: Path, home: Path) -> None:
    """As for submit; a flag wins."""
    assert folder.is_dir()
    config = home / ".config" / "kaiwo" / "kaiwoconfig.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("user: jane\nclusterQueue: team-a\nnamespace: team\n", encoding="utf-8")
    manifest = yaml.safe_load(cli("run", "--dry-run", "--queue", "team-b", "--image", "x", "true").out)
    assert manifest["metadata"]["namespace"] == "team"
    assert (manifest["spec"]["user"], manifest["spec"]["clusterQueue"]) == ("jane", "team-b")


def test_a_variable_without_a_value_is_ones_own(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with docker; one that is not set is an error and not empty."""
    assert folder.is_dir()
    monkeypatch.setenv("WANDB_MODE", "offline")
    result = cli("run", "--dry-run", "--image", "x", "--env", "WANDB_MODE", "--env", "A=b=c", "true")
    env = {item["name"]: item["value"] for item in yaml.safe_load(result.out)["spec"]["env"]}
    assert env == {"PYTHONUNBUFFERED": "1", "WANDB_MODE": "offline", "A": "b=c"}
    missing = cli("run", "--dry-run", "--env", "NOT_SET_HERE", "true")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err.startswith("error: --env NOT_SET_HERE: is not set here\n")


def test_a_folder_that_is_too_large_names_the_ways_out(cli: Cli, folder: Path) -> None:
    """The five biggest files, and what to do."""
    with (folder / "model.bin").open("wb") as stream:
        stream.truncate(1 << 30)
    result = cli("run", "--image", "x", "python", "train.py")
    assert result.code == 2
    assert "     1.0 GiB  model.bin" in result.err
    assert "--git" in result.err
    assert cli("run", "--dry-run", "--no-sync", "--image", "x", "python", "train.py").code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "no command"),
        (("--ray", "--service", "--", "x"), "a service on Ray"),
        (("--name", "Not_Legal", "x"), 'metadata.name: "Not_Legal"'),
        (("--interactive", "--detach"), "--interactive excludes"),
        (("-A", "x"), "-A is not supported"),
        (("--port", "70000", "x"), "70000"),
        (("--gpus", "2.5", "x"), "'--gpus': '2.5' is not a whole number"),
    ],
)
def test_what_cannot_be_run_is_a_usage_error(
    cli: Cli, folder: Path, args: tuple[str, ...], message: str
) -> None:
    """Exit code 2, and nothing was sent."""
    assert folder.is_dir()
    result = cli("run", "--dry-run", "--no-sync", "--image", "x", *args)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_wrong_value_leads_to_the_options_and_to_no_file(cli: Cli, folder: Path) -> None:
    """A run has no file whose lines another command could show."""
    assert folder.is_dir()
    result = cli("run", "--dry-run", "--no-sync", "--image", "IMAGE", "x")
    assert result.err.startswith('error: spec.image: "IMAGE" is not an image reference')
    assert "hint: options of kaiwo run set these fields: kaiwo run --help" in result.err


def test_interactive_waits_for_a_shell(cli: Cli, folder: Path) -> None:
    """The pod does nothing by itself, and ends at once when it is told to."""
    assert folder.is_dir()
    manifest = yaml.safe_load(cli("run", "--dry-run", "--interactive", "--image", "x", "--gpus", "1").out)
    assert manifest["spec"]["entrypoint"].startswith("trap 'exit 0' TERM")
    assert manifest["metadata"]["name"].startswith("shell-")
