"""What ``kaiwo plugin new`` writes and refuses to write, without anything installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kaiwo.cli.main import main
from kaiwo.cli.plugin_scaffold.command import new
from kaiwo.cli.plugin_scaffold.create import new_plugin, write
from kaiwo.cli.plugin_scaffold.names import KINDS, MAX_LENGTH, PluginNames, ScaffoldError
from kaiwo.cli.plugin_scaffold.templates import fill
from kaiwo.plugin.conflicts import HOST_COMMANDS

TEMPLATES = Path(__file__).parents[3] / "kaiwo" / "cli" / "plugin_scaffold" / "templates"
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
NAMES = ("x", "acme-hub", "z" * MAX_LENGTH)


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, output and messages of ``kaiwo plugin new``."""
    with pytest.raises(SystemExit) as ended:
        main(["plugin", "new", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@EVERY_KIND
def test_a_plugin_is_whole(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tests, types, a README, a sample and a workflow; what is printed is what was written."""
    code, out, _ = run(capsys, kind, "acme", "--directory", tmp_path / "new")
    assert code == 0
    written = {
        str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*") if path.is_file()
    }
    assert {str(Path(line).relative_to(tmp_path / "new")) for line in out.splitlines()} == written
    assert written > {
        ".github/workflows/test.yaml", ".gitignore", "README.md", "pyproject.toml", "sample.yaml",
        "kaiwo_acme/__init__.py", "kaiwo_acme/plugin.py", "kaiwo_acme/py.typed",
    }  # fmt: skip
    assert any(name.startswith("tests/test_") for name in written)
    assert ("Containerfile" in written) == (kind == "source")
    assert ({"tests/crd.yaml", "tests/test_sandbox.py", "kaiwo_acme/chain.py"} < written) == (
        kind == "backend"
    )


@pytest.mark.parametrize("words", [["check"], ["format", "--diff"]], ids=" ".join)
def test_every_plugin_is_formatted_and_has_no_lint(words: list[str], tmp_path: Path) -> None:
    """By the settings in its own pyproject.toml, whatever the length of its name."""
    for kind in KINDS:
        for name in NAMES:
            write(tmp_path / f"{kind}-{name}", new_plugin(kind, name)[1])
    command = [str(Path(sys.executable).with_name("ruff")), *words, "--no-cache", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@EVERY_KIND
@pytest.mark.parametrize("name", NAMES)
def test_every_placeholder_has_its_value(kind: str, name: str) -> None:
    """Also in the names of files; TOML and YAML can be read, and Kaiwo finds the plugin."""
    names, files = new_plugin(kind, name)
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["entry-points"]["kaiwo.plugins"] == {names.plugin: f"{names.package}.plugin"}
    for path, text in files.items():
        assert "@@" not in path + text
        if path.endswith(".yaml"):
            assert [document for document in yaml.safe_load_all(text) if document]


@EVERY_KIND
def test_a_plugin_imports_what_is_promised_to_stay(kind: str) -> None:
    """The plugin API and its kit, the testing kit, and the module for commands; nothing else of Kaiwo."""
    _, files = new_plugin(kind, "acme")
    for path, text in files.items():
        for module in re.findall(r"^\s*(?:from|import) (kaiwo[.\w]*)", text, flags=re.MULTILINE):
            allowed = re.fullmatch(r"kaiwo\.plugin(\.\w+|\.kit\.\w+)?|kaiwo_acme(\.\w+)?", module)
            in_test = path.startswith("tests/") and re.fullmatch(
                r"kaiwo|kaiwo\.testing(\.\w+)?|kaiwo_batch_job\.plugin", module
            )
            in_command = kind == "command" and module == "kaiwo.cli"
            assert allowed or in_test or in_command, f"{path} imports {module}"


@pytest.mark.parametrize(
    ("name", "words", "hint"),
    [
        ("Acme Hub", "expected lower-case letters", "acme-hub"),
        ("", "expected lower-case letters", "acme"),
        ("1st", "with a letter first", "acme"),
        ("a--b", "single dashes", "a-b"),
        ("../x", "is invalid", "x"),
        ("kaiwo-acme", "begins with kaiwo", "use acme"),
        ("a" * (MAX_LENGTH + 1), f"at most {MAX_LENGTH}", "shorter"),
    ],
)
def test_an_invalid_name_is_an_error_with_a_valid_one(
    name: str, words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The author can type the next attempt at once."""
    with pytest.raises(ScaffoldError, match=re.escape(words)) as caught:
        PluginNames.of(name)
    assert hint in caught.value.next_step
    code, out, err = run(capsys, "vendor", "--", name)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("kind", "name", "owner"),
    [
        ("vendor", "amd", "plugin gpu_amd of kaiwo-gpu-amd"),
        ("source", "git", "plugin storage_s3_gcs_azure_git_hf"),
        ("rule", "batch-job", "plugin batch_job of kaiwo-batch-job"),
        ("queue", "Kueue".lower(), "kueue"),
        ("command", "list", "kaiwo itself"),
        ("command", "sandbox", "kaiwo-sandbox"),
    ],
)
def test_a_name_that_is_taken_is_an_error_with_its_owner(
    kind: str, name: str, owner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both plugins would be refused when they are loaded together."""
    code, _, messages = run(capsys, kind, name, "--directory", tmp_path / "new")
    assert code == 1
    assert "is taken by" in messages
    assert owner in messages
    assert not (tmp_path / "new").exists()


def test_a_directory_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is overwritten, and nothing is added."""
    (tmp_path / "mine").write_text("")
    code, _, messages = run(capsys, "rule", "acme", "--directory", tmp_path)
    assert (code, [path.name for path in tmp_path.iterdir()]) == (1, ["mine"])
    assert f"directory {tmp_path} is not empty" in messages
    code, _, messages = run(capsys, "rule", "acme", "--directory", tmp_path / "mine")
    assert code == 1
    assert "is not a directory" in messages


def test_the_directory_is_named_like_the_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless --directory names another one; --dry-run writes nothing at all."""
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "rule", "acme-hub", "--dry-run")[1].startswith("kaiwo-acme-hub/.github")
    assert list(tmp_path.iterdir()) == []
    assert run(capsys, "rule", "acme_hub")[0] == 0
    assert (tmp_path / "kaiwo-acme-hub" / "kaiwo_acme_hub" / "plugin.py").is_file()


def test_every_kind_is_explained() -> None:
    """In the help, which is where an author sees what there is."""
    text = CliRunner().invoke(new, ["--help"]).output
    assert [kind for kind in KINDS if not re.search(rf"^ +{kind}  +\w", text, flags=re.MULTILINE)] == []
    assert "plugin" in HOST_COMMANDS


def test_what_is_put_into_a_template_is_not_searched_again() -> None:
    """A placeholder without a value is a defect of the template, found at once."""
    assert fill("@@a@@ @@b@@", {"a": "@@b@@", "b": "x"}) == "@@b@@ x"
    with pytest.raises(KeyError):
        fill("@@c@@", {})


@pytest.mark.parametrize("name", ["generated", "embedded"])
def test_the_golden_files_are_what_kaiwo_renders_now(name: str, tmp_path: Path) -> None:
    """``KAIWO_GOLDEN=write`` writes the templates of the golden files of a new backend."""
    names, files = new_plugin("backend", "acme-hub")
    write(tmp_path, files)
    golden = tmp_path / "tests" / "golden" / f"{name}.yaml"
    expected = golden.read_text("utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        f"expected_one and {name}",
    ]
    environment = {**os.environ, "KAIWO_GOLDEN": "write"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found = golden.read_text("utf-8")
    if os.environ.get("KAIWO_GOLDEN") == "write":
        template = found.replace(f"{names.dashed}.example", "@@dashed@@.example")
        template = template.replace(f"{names.pascal}Run", "@@pascal@@Run")
        target = TEMPLATES / "backend" / "checks" / "golden" / f"{name}.yaml.tmpl"
        target.write_text(template, "utf-8")
        return
    assert found == expected, "run this test once with KAIWO_GOLDEN=write and read the difference"
