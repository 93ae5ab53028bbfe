"""The command line as a whole: quick help, options anywhere, exit codes, talk and data apart."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import click
import pytest
from click.shell_completion import get_completion_class

from kaiwo.cli import kit, options
from kaiwo.cli.command_group import CommandEntry, LazyGroup, load
from kaiwo.cli.failures import run
from kaiwo.cli.main import COMMANDS, kaiwo, program
from kaiwo.cli.other_commands import EQUIVALENTS, equivalent_options
from kaiwo.engine import errors
from kaiwo.engine.credentials import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


def modules_after(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has loaded after running the code."""
    script = (
        f"import sys, json\n{textwrap.dedent(code)}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_imports_nothing_heavy() -> None:
    """``kaiwo --help`` must appear at once, so it loads click and little else."""
    loaded = modules_after(
        """
        from kaiwo.cli.failures import run
        from kaiwo.cli.main import kaiwo
        run(kaiwo, ["--help"], "kaiwo")
        """
    )
    heavy = {
        "kubernetes",
        "aiohttp",
        "pydantic",
        "rich",
        "kopf",
        "yaml",
        "msgspec",
        "asyncio",
        "ssl",
        "importlib.metadata",
    }
    assert loaded & heavy == set()


def test_help_lists_every_command_once(cli: Cli) -> None:
    """The list shows the host's commands, then those of plugins."""
    text = cli("--help").out
    own, _, plugins = text.partition("Commands of plugins:")
    for name, entry in COMMANDS.items():
        assert (f"  {name}" in own) != entry.hidden
        assert entry.hidden or entry.help in own
    assert "  sandbox" in plugins


def test_a_disabled_plugin_adds_no_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process configuration decides which plugins count, also for the list of commands."""
    monkeypatch.setenv("KAIWO_PLUGINS_DISABLED", "sandbox")
    assert "sandbox" not in cli("--help").out
    assert cli("sandbox", "status").code == 2


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_loads_and_has_help(cli: Cli, name: str) -> None:
    """No entry of the table leads nowhere."""
    result = cli(name, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: kaiwo {name}")


@pytest.mark.parametrize("words", [["submit"], ["plugin", "new"], ["--verbose", "list"]])
def test_help_is_a_word_too(cli: Cli, words: list[str]) -> None:
    """``kaiwo help submit`` is ``kaiwo submit --help``, as git and kubectl have it."""
    named = [word for word in words if not word.startswith("-")]
    assert cli("help", *words).out == cli(*named, "--help").out
    assert cli("help").out == cli("help", "help").out == cli("--help").out
    unknown = cli("help", "lst")
    assert (unknown.code, unknown.out) == (2, "")
    assert 'did you mean "list"?' in unknown.err


@pytest.mark.parametrize("option", ["--namespace", "--context", "--kubeconfig"])
def test_an_empty_option_is_one_that_was_not_given(cli: Cli, home: Path, option: str) -> None:
    """A script passes an unset variable; kubectl takes it for none."""
    result = cli(option, "", "list")
    assert f"{home}/.kube/config: no such file" in result.err


@pytest.mark.parametrize("name", ["sandbox", "demo"])
def test_help_of_the_sandbox_begins_with_examples(cli: Cli, name: str) -> None:
    """The first commands that somebody without a cluster types."""
    summary, example = cli(name, "--help").out.split("\n\n")[1:3]
    assert len(summary.splitlines()) <= 2
    assert example.startswith(f"    kaiwo {name}")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_begins_with_examples(cli: Cli, name: str) -> None:
    """The first thing below one line of text is something to type."""
    lines = cli(name, "--help").out.partition("\n\n")[2].splitlines()
    blank = lines.index("")
    assert blank <= 2, lines
    example = lines[blank + 1]
    entry = COMMANDS[name]
    listed = [other for other, same in COMMANDS.items() if same.load == entry.load]
    assert any(f"kaiwo {other}" in example for other in listed), example
    assert example.startswith("    ")


FOREIGN = "\u7814\u7a76"
CHECK_FOREIGN = f"""\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
metadata: {{name: train}}
spec: {{image: a/b:1, user: {FOREIGN}}}
"""


def _written(stdout: int, work: Path) -> subprocess.Popen[bytes]:
    """A process in a locale that is not UTF-8, whose output goes to a file descriptor."""
    (work / "job.yaml").write_text(CHECK_FOREIGN, encoding="utf-8")
    code = "from kaiwo.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "submit", "--dry-run=client", "job.yaml", "-o", "yaml"],
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=work,
        env={**os.environ, "PYTHONIOENCODING": "latin-1", "KUBECONFIG": "/nonexistent"},
    )


def test_data_is_utf8_in_every_locale(tmp_path: Path) -> None:
    """As kubectl writes it; in other locales it was an internal error, or JSON that no parser reads."""
    out, err = _written(subprocess.PIPE, tmp_path).communicate(timeout=60)
    assert f"user: {FOREIGN}".encode() in out
    assert b"error" not in err


def test_a_terminal_gets_what_it_can_show(tmp_path: Path) -> None:
    """And escapes of the rest."""
    master, slave = os.openpty()
    done = _written(slave, tmp_path)
    os.close(slave)
    _, err = done.communicate(timeout=60)
    assert b"error" not in err
    assert rb"user: \u7814\u7a76" in os.read(master, 1 << 16)
    os.close(master)


def test_an_unknown_command_is_answered_with_the_nearest(cli: Cli) -> None:
    """A typing error is answered with the nearest known word; it is wrong usage."""
    result = cli("lst")
    assert result.code == 2
    assert 'unknown command "lst"; did you mean "list"?' in result.err
    assert result.out == ""


def test_watch_works_before_and_after_the_name_where_it_means_something(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``kaiwo -w list`` is ``kaiwo list -w``; a command that shows nothing twice refuses it."""
    seen = []

    @options.watchable
    @click.command()
    def listing() -> None:
        seen.append(options.settings().watch)

    monkeypatch.setattr("kaiwo.cli.command_group.load", lambda *_: listing)
    for args in (["-w", "list"], ["list", "-w"], ["list", "--watch"], ["list"]):
        assert cli(*args).code == 0
    assert seen == [True, True, True, False]
    monkeypatch.undo()
    refused = cli("--watch", "version", "--client")
    assert (refused.code, refused.out) == (2, "")
    assert "version does not support --watch" in refused.err
    assert "--watch" in cli("--help").out


def test_other_words_mean_the_same_command() -> None:
    """Who knows kubectl says describe, who knows a batch system says cancel."""
    for word, name in (("describe", "status"), ("cancel", "delete")):
        assert COMMANDS[word].load == COMMANDS[name].load


def test_the_list_of_plugins_can_be_requested_by_name(cli: Cli) -> None:
    """``kaiwo plugins list`` and ``kaiwo plugin list`` are ``kaiwo plugins``, options anywhere."""
    listed = cli("plugins", "list", "-o", "name")
    assert listed == cli("plugins", "-o", "name") == cli("-o", "name", "plugins", "list")
    assert listed == cli("plugin", "list", "-o", "name")
    assert listed.code == 0
    assert "batch_job" in listed.out.split()


def test_kubectl_finds_it_as_a_plugin() -> None:
    """Called as kubectl-kaiwo, usage lines say what the user typed."""
    assert program("/usr/local/bin/kubectl-kaiwo") == "kubectl kaiwo"
    assert program("/usr/local/bin/kaiwo") == "kaiwo"
    binary = Path(sys.executable).with_name("kubectl-kaiwo")
    done = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: kubectl kaiwo ")


@click.command()
@click.option("-o", "own", help="An option that happens to have the same letter.")
@click.pass_context
def probe(ctx: click.Context, own: str | None) -> None:
    """Print what was chosen."""
    chosen = options.settings(ctx)
    click.echo(
        f"{chosen.namespace} {chosen.all_namespaces} {chosen.context} {chosen.kubeconfig} "
        f"{chosen.output} {chosen.color} {chosen.verbosity} {own}"
    )


@click.group()
def outer() -> None:
    """A group that knows nothing of the shared options."""


@outer.command()
def inner() -> None:
    """Print the namespace."""
    click.echo(options.settings().namespace)


def group_with(**commands: click.Command) -> LazyGroup:
    """A root group like kaiwo's, with other commands."""
    table = {name: CommandEntry(f"{__name__}:{name}", "") for name in commands}
    root = LazyGroup(name="kaiwo", table=table, listed=dict, find=lambda _: None)
    options.share(root, hidden=False)
    return root


@pytest.mark.parametrize(
    "args",
    [
        ["-n", "team", "-A", "--context", "c", "--kubeconfig", "k", "--no-color", "-vv", "probe"],
        ["probe", "-n", "team", "-A", "--context", "c", "--kubeconfig", "k", "--no-color", "-vv"],
        [
            "-n",
            "other",
            "-A",
            "-v",
            "probe",
            "-n",
            "team",
            "--context",
            "c",
            "--kubeconfig",
            "k",
            "--no-color",
            "-v",
        ],
    ],
)
def test_shared_options_work_before_and_after_the_command(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The nearer one wins; what is not repeated stays."""
    assert run(group_with(probe=probe), args, "kaiwo") == 0
    assert capsys.readouterr().out == "team True c k None False 2 None\n"


def test_an_option_of_the_commands_own_keeps_its_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A plugin's ``-o`` is the plugin's; the shared one is still there before the command's name."""
    assert run(group_with(probe=probe), ["-o", "json", "probe", "-o", "mine"], "kaiwo") == 0
    assert capsys.readouterr().out.endswith("json True 0 mine\n")


def test_shared_options_reach_the_commands_of_groups(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``kaiwo sandbox up -n x`` works though the plugin never heard of -n."""
    assert run(group_with(outer=outer), ["outer", "inner", "-n", "team"], "kaiwo") == 0
    assert capsys.readouterr().out == "team\n"


@pytest.mark.parametrize(
    "words",
    [
        ["version", "--client", "-o=json"],
        ["-o=json", "version", "--client"],
        ["version", "--client", "-ojson"],
    ],
)
def test_a_short_option_takes_its_value_as_for_kubectl(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """``-o json``, ``-ojson`` and ``-o=json`` are the same."""
    assert run(kaiwo, words, "kaiwo") == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "words",
    [
        ["manifests", "rbac", "-n=ml-ops", "--plugins", "batch_job"],
        ["-n=ml-ops", "manifests", "rbac", "--plugins", "batch_job"],
    ],
)
def test_a_namespace_may_be_written_with_an_equals_sign(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the command's name and after it, also for a command with a ``-n`` of its own."""
    assert run(kaiwo, words, "kaiwo") == 0
    assert "namespace: ml-ops" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["list", "-n"], "kaiwo list --help"),
        (["-n", "a", "plugin", "new", "--directory"], "kaiwo plugin new --help"),
        (["run", "--dry-run=client", "--", "ls"], "write --dry-run alone; kaiwo run --help"),
        (["-o"], "kaiwo --help"),
        (["delete"], "kaiwo delete --help"),
        (["delete", "a", "-l", "b=c"], "kaiwo delete --help"),
        (["delete", "a", "--wait=false"], "write --wait or --no-wait alone; kaiwo delete --help"),
        (["cancel", "a", "--ignore-not-found=true"], "write --ignore-not-found alone; kaiwo cancel --help"),
        (["list", "--watch=true"], "write --watch alone; kaiwo list --help"),
        (
            ["delete", "--all"],
            "kubectl delete kaiwojobs,kaiwoservices --all; kaiwo delete --help",
        ),
        (["list", "--field-selector=a=b"], "--status, --queue, --user and -l choose; kaiwo list --help"),
        (
            ["list", "--as", "ada"],
            f"{equivalent_options('list')['--as']}; kaiwo list --help",
        ),
        (["logs", "train", "-l", "a=b"], "all pods of the workload are read; kaiwo logs --help"),
        (
            ["exec", "train", "ls", "-la"],
            "a command with options stands after --: kaiwo exec NAME -- COMMAND; kaiwo exec --help",
        ),
        (
            ["list", "-o=jsonpath={.items}"],
            "kubectl get kaiwojobs has other forms, and jq reads -o json; kaiwo list --help",
        ),
        (
            ["list", "-o", "custom-columns=A:.b"],
            "kubectl get kaiwojobs has other forms, and jq reads -o json; kaiwo list --help",
        ),
        (["list", "-o", "jsn"], "kaiwo list --help"),
    ],
)
def test_a_mistake_with_an_option_has_a_next_step(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Click's parser does not say which command it is in; the hint does, and knows what kubectl would do."""
    assert run(kaiwo, words, "kaiwo") == 2
    assert capsys.readouterr().err.splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["delete", "a", "--now"], "--no-wait"),
        (["list", "--as", "a"], "--user"),
        (["exec", "a", "--contaner", "b"], ""),
    ],
)
def test_an_option_of_kubectl_is_not_taken_for_a_typing_error(
    words: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--as`` was answered with "did you mean --user", which lists the workloads of that user."""
    assert run(kaiwo, words, "kaiwo") == 2
    said = capsys.readouterr().err
    assert wrong not in said if wrong else 'did you mean "--container"?' in said


def test_a_misspelt_command_of_a_group_is_answered_as_every_other(cli: Cli) -> None:
    """Groups of click have sentences of their own."""
    result = cli("plugin", "nw")
    assert result.code == 2
    assert result.err == "error: no such command 'nw'; did you mean 'new'?\nhint: kaiwo plugin --help\n"


def test_a_command_that_cannot_be_loaded_names_where_it_should_be() -> None:
    """A broken plugin's command is an error in one line and not a traceback."""
    with pytest.raises(click.ClickException, match="cannot be loaded from nowhere_at_all:x"):
        load(CommandEntry("nowhere_at_all:x", ""), "x")
    with pytest.raises(click.ClickException, match="is not a click command"):
        load(CommandEntry("os:getcwd", ""), "x")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (errors.NotFound(404, "NotFound", 'jobs "x" not found'), 3, 'jobs "x" not found'),
        (errors.Forbidden(403, "Forbidden", "no rights"), 1, "not allowed: no rights"),
        (
            errors.Forbidden(401, "", "Unauthorized"),
            1,
            "credentials not accepted by the API server: Unauthorized\nhint: ",
        ),
        (
            errors.ServerUnavailable(500, "", "etcd is down"),
            1,
            "rejected by the API server: etcd is down",
        ),
        (errors.ConnectionBroken("refused"), 1, "no answer from the API server: refused"),
        (errors.CredentialsError("no such context"), 1, "no such context"),
        (TimeoutError(), 4, "timed out"),
        (OSError(28, "No space left on device", "out.yaml"), 1, "out.yaml: No space left on device\nhint: "),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (click.UsageError("wrong"), 2, "wrong"),
        (
            KeyError("surprise"),
            1,
            "internal error: KeyError: 'surprise' (run with -vv for the traceback)",
        ),
    ],
)
def test_each_failure_has_its_exit_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 ok, 1 failed, 2 usage, 3 not found, 4 timed out, 130 interrupted; message on standard error."""

    @click.command()
    def fail() -> None:
        raise error

    assert run(fail, [], "kaiwo") == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    "words",
    ["submit -f", "plan --nodes", "list --config", "submit --config", "--kubeconfig", "list --kubeconfig"],
)
def test_a_shell_completes_names_of_files(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """The script completes files where an option takes one."""
    monkeypatch.setenv("COMP_WORDS", f"kaiwo {words} jo")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) + 1))
    complete = get_completion_class("bash")
    assert complete is not None
    assert complete(kaiwo, {}, "kaiwo", "_KAIWO_COMPLETE").complete() == "file,jo"


def test_closed_streams_are_like_empty_ones(home: Path) -> None:
    """Programs that start others close what they do not use."""
    binary = Path(sys.executable).with_name("kaiwo")
    plan = [str(binary), "plan", "--offline", "-f"]
    closed = ["sh", "-c", 'exec "$0" "$@" <&-', *plan, "-"]
    done = subprocess.run(closed, capture_output=True, text=True, check=False, cwd=home)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "stdin: no workload in this file; a workload starts with apiVersion and kind",
    )
    closed = ["sh", "-c", 'exec "$0" "$@" >&-', str(binary), "plugins"]
    done = subprocess.run(closed, capture_output=True, text=True, check=False, cwd=home)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command", [["submit", "-f", "job.yaml"], ["plan", "-f", "job.yaml"], ["status", "x"]]
)
def test_all_namespaces_is_refused_where_it_means_nothing(
    cli: Cli, job_file: Path, command: list[str]
) -> None:
    """A command that cannot cover all namespaces does not accept the option; nor does delete."""
    assert job_file.exists()
    result = cli(*command, "-A")
    assert result.code == 2
    assert "-A is not supported here" in result.err


def test_the_version_is_printed_as_by_other_programs(cli: Cli) -> None:
    """``--version`` needs no cluster and no plugin."""
    assert cli("--version").out == f"kaiwo {version('kaiwo')}\n"


def test_a_reader_that_has_enough_is_no_error() -> None:
    """``kaiwo manifests crds | head -1`` ends quietly."""
    binary = Path(sys.executable).with_name("kaiwo")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [binary, "manifests", "crds"], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == ""


def test_version_is_known_without_a_cluster(cli: Cli) -> None:
    """No kubeconfig is no reason to fail."""
    result = cli("version", "-o", "json")
    assert result.code == 0
    assert set(json.loads(result.out)) == {"kaiwo", "python"}
    assert result.err.startswith("warning: version of the cluster unknown: ")
    assert cli("version", "--client").err == ""


def test_several_states_are_written_as_for_kubectl(cli: Cli) -> None:
    """With commas; each word is checked."""
    refused = cli("list", "--status", "running,faild")
    assert refused.code == 2
    assert 'unknown status "faild"; did you mean "FAILED"?' in refused.err


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_script_names_the_command(cli: Cli, shell: str) -> None:
    """What a shell evaluates calls kaiwo back."""
    result = cli("completion", shell)
    assert result.code == 0
    assert "_KAIWO_COMPLETE" in result.out


FISH = shutil.which("fish")


@pytest.mark.skipif(FISH is None, reason="needs fish")
def test_fish_completes_the_second_of_two_states(tmp_path: Path) -> None:
    """A value with a comma comes back whole."""
    program = Path(sys.executable).with_name("kaiwo")
    script = f"{program} completion fish | source; complete -C 'kaiwo list --status FAILED,E'"
    done = subprocess.run(
        [str(FISH), "--no-config", "-c", script],
        env={"HOME": str(tmp_path), "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "FAILED,ERROR\n"


def test_the_script_for_fish_keeps_commas(cli: Cli) -> None:
    """Click's own cuts a value at its first one."""
    assert 'string split --max 1 "," $completion' in cli("completion", "fish").out


def test_completion_of_names_is_silent_without_a_cluster() -> None:
    """A shell that completes must never print an error."""
    binary = Path(sys.executable).with_name("kaiwo")
    environment = {"COMP_WORDS": "kaiwo status ", "COMP_CWORD": "2", "_KAIWO_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [binary],
        env={**environment, "HOME": "/nonexistent", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_completion_of_names_is_silent_with_a_credential_plugin(tmp_path: Path) -> None:
    """What a plugin says would stand over the line that is being typed, and nobody could answer it."""
    kubeconfig = tmp_path / "config"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "ls", "args": ["/nonexistent"]}
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"exec": plugin}}],
            }
        )
    )
    binary = Path(sys.executable).with_name("kaiwo")
    environment = {"COMP_CWORD": "2", "_KAIWO_COMPLETE": "bash_complete", "KUBECONFIG": str(kubeconfig)}
    for words in ("kaiwo status ", "kaiwo queue "):
        done = subprocess.run(
            [binary],
            env={**environment, "COMP_WORDS": words, "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout.strip(), done.stderr) == ("", "")


def test_credentials_are_there_before_a_command_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that asks has no line of progress over its question, and no time limit of a request."""
    asked: list[bool] = []

    class Asking:
        async def headers(self, *, refresh: bool) -> dict[str, str]:
            asked.append(refresh)
            return {}

    connection = Connection("http://127.0.0.1:1", authenticator=Asking())
    monkeypatch.setattr(kit, "connection", lambda: connection)
    with click.Context(kaiwo, obj=options.GlobalOptions()), kit.cluster():
        assert asked == [False]


def complete(words: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What bash is offered behind these words."""
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    shell = get_completion_class("bash")
    assert shell is not None
    return shell(kaiwo, {}, "kaiwo", "_KAIWO_COMPLETE").complete()


def test_completion_behind_a_misspelt_command_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    """A tab must never print an error over the line that is being typed."""
    assert home.is_dir()
    complete("kaiwo statsu ", monkeypatch)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("words", ["status", "delete", "status --config other.yaml", "-n given status"])
def test_names_complete_from_the_namespace_that_the_command_uses(
    monkeypatch: pytest.MonkeyPatch, home: Path, words: str
) -> None:
    """The namespace of kaiwoconfig.yaml counts for the tab as for the command; -n wins."""
    (home / ".config" / "kaiwo").mkdir(parents=True)
    (home / ".config" / "kaiwo" / "kaiwoconfig.yaml").write_text("namespace: mine\n")
    Path("other.yaml").write_text("namespace: theirs\n")
    asked: list[str | None] = []

    class Recorded:
        """A cluster without workloads that records the namespaces in which names are searched."""

        scope = ""

        def __enter__(self) -> Self:
            asked.append(options.settings().namespace)
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing to close."""

        def list(self, *_: object) -> list[dict[str, Any]]:
            """No workloads."""
            return []

    monkeypatch.setattr("kaiwo.cli.kit.cluster", lambda **_: Recorded())
    assert complete(f"kaiwo {words} ", monkeypatch) == ""
    expected = "theirs" if "other.yaml" in words else "given" if "given" in words else "mine"
    assert asked == [expected]


def test_a_tab_offers_no_value_that_a_shell_would_execute(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Bash puts the only value on the line as it is, and anybody may name the user of a workload."""
    assert home.is_dir()
    harmful = ("j$(touch stolen)", "j`touch stolen`", "j;reboot", "j\nplain,x", "j\x1b[2J", "")
    users = ("jane@example.org", *harmful)

    class Shared:
        """A cluster whose namespace others use, too."""

        scope = "team"

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing to close."""

        def list(self, *_: object) -> list[dict[str, Any]]:
            """Workloads of several users."""
            return [{"metadata": {"name": "train"}, "spec": {"user": user}} for user in users]

    monkeypatch.setattr("kaiwo.cli.kit.cluster", lambda **_: Shared())
    assert complete("kaiwo list --user ", monkeypatch) == "plain,jane@example.org"


@pytest.mark.parametrize("command", ["submit", "plan", "list", "status", "delete"])
def test_every_command_that_reads_kaiwoconfig_takes_its_path(cli: Cli, command: str) -> None:
    """--config is no privilege of submit."""
    assert "--config FILE" in cli(command, "--help").out


def test_commands_complete() -> None:
    """``kaiwo sub<TAB>`` gives submit."""
    binary = Path(sys.executable).with_name("kaiwo")
    environment = {"COMP_WORDS": "kaiwo sub", "COMP_CWORD": "1", "_KAIWO_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [binary], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["plain,submit"]


def test_the_root_group_needs_a_command(cli: Cli) -> None:
    """``kaiwo`` alone shows the help."""
    result = cli()
    assert result.out.startswith("Usage: kaiwo ")
    assert "Commands:" in result.out
    assert (result.code, result.err) == (2, "")
    assert isinstance(kaiwo, LazyGroup)


def test_what_is_named_in_place_of_other_commands_exists() -> None:
    """No hint leads to a command that is not there, and none hides a command."""
    for word, text in EQUIVALENTS.items():
        assert word not in COMMANDS
        assert set(re.findall(r"kaiwo ([a-z-]+)", text)) <= set(COMMANDS), text


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_what_is_named_in_place_of_other_options_exists(name: str) -> None:
    """No hint leads to a command that is not there, and none hides an option."""
    command = load(COMMANDS[name], name)
    options.share(command)
    own = {word for param in command.params for word in param.opts}
    for option, text in equivalent_options(name).items():
        assert option not in own
        assert set(re.findall(r"kaiwo ([a-z-]+)", text)) <= set(COMMANDS), text


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_name_of_a_workload_can_be_completed(name: str) -> None:
    """An argument NAME completes live names, in every command that has one."""
    command = load(COMMANDS[name], name)
    for param in command.params:
        if isinstance(param, click.Argument) and param.name in {"name", "names"}:
            assert getattr(param, "_custom_shell_complete", None) is not None


def test_a_tab_behind_the_program_imports_no_command(home: Path) -> None:
    """All commands are offered at once, also one that cannot be loaded."""
    loaded = modules_after(
        """
        import os
        os.environ |= {"COMP_WORDS": "kaiwo ", "COMP_CWORD": "1"}
        from click.shell_completion import BashComplete
        from kaiwo.cli.main import kaiwo
        offered = BashComplete(kaiwo, {}, "kaiwo", "_KAIWO_COMPLETE").complete().split()
        assert {"plain,submit", "plain,list", "plain,sandbox"} <= set(offered), offered
        assert "plain,describe" not in offered
        """
    )
    assert home.is_dir()
    assert not {name for name in loaded if name.startswith("kaiwo.cli.commands.")}


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: a}}, {name: production, context: {cluster: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
"""


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("kaiwo list --status ", "RUNNING"),
        ("kaiwo list ", "service"),
        ("kaiwo --context ", "production"),
        ("kaiwo status --context ", "production"),
        ("kaiwo submit --set ", "clusterQueue="),
        ("kaiwo submit --set ", "storage.data.storageSize="),
        ("kaiwo plan --plugins ", "gpu_amd"),
        ("kaiwo list --user ", "jane@example.org"),
        ("kaiwo list -o ", "wide"),
        ("kaiwo submit --dry-run ", "client"),
        ("kaiwo completion ", "zsh"),
    ],
)
def test_a_tab_completes_values_of_options(
    monkeypatch: pytest.MonkeyPatch, home: Path, words: str, offered: str
) -> None:
    """What needs no cluster is offered without one, too."""
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(KUBECONFIG)
    (home / ".config" / "kaiwo").mkdir(parents=True)
    (home / ".config" / "kaiwo" / "kaiwoconfig.yaml").write_text("user: jane@example.org\n")
    assert f"plain,{offered}" in complete(words, monkeypatch).splitlines()


LIVE = {
    "namespaces": ["team", "test"],
    "kaiwojobs": ["train"],
    "kaiwoservices": ["chat"],
}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("kaiwo -n ", ["team", "test"]),
        ("kaiwo status -n ", ["team", "test"]),
        ("kaiwo list --queue ", ["blue"]),
        ("kaiwo submit --queue ", ["blue"]),
        ("kaiwo list --user ", ["ada"]),
        ("kaiwo status ", ["chat", "train"]),
        ("kaiwo delete train ", ["chat", "train"]),
    ],
)
def test_a_tab_completes_what_the_cluster_has(
    monkeypatch: pytest.MonkeyPatch, home: Path, words: str, offered: list[str]
) -> None:
    """Namespaces, queues, users and names are those of the moment."""
    assert home.is_dir()

    class Recorded:
        namespace = scope = "team"

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *error: object) -> None:
            """Nothing to close."""

        def list(self, resource: Any, namespace: str | None = None) -> list[Any]:
            del namespace
            spec = {"clusterQueue": "blue", "user": "ada"}
            names = LIVE.get(resource.plural, [])
            return [{"metadata": {"name": name}, "spec": spec} for name in names]

    monkeypatch.setenv("KAIWO_PLUGINS_DISABLED", "kueue")
    monkeypatch.setattr("kaiwo.cli.kit.cluster", lambda **_: Recorded())
    assert complete(words, monkeypatch).splitlines() == [f"plain,{name}" for name in offered]


@pytest.mark.parametrize(
    "words",
    [
        "kaiwo statsu ",
        "kaiwo list --bogus ",
        "kaiwo --bogus list ",
        "kaiwo submit -f ",
        "kaiwo list --timeout 5 --us ",
        "kaiwo get pods ",
        "kaiwo list --status BOGUS ",
        "kaiwo -o bogus list ",
        "kaiwo delete --timeout soon ",
    ],
)
def test_a_tab_behind_a_slip_prints_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, words: str
) -> None:
    """The line is not finished yet; nothing may be written over it."""
    assert home.is_dir()
    complete(words, monkeypatch)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
