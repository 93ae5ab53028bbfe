"""Message and exit code of a failed command."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaiwo.engine.errors import ApiError

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
TIMED_OUT = 4
INTERRUPTED = 130  # 128 + SIGINT, as shells count

LINE_END = "\n"  # may stand in a message that lists several things


_CREDENTIALS_HINT = (
    "kubectl config get-contexts; without a cluster: kaiwo submit --dry-run=client, kaiwo plan --offline"
)


class Failure(click.ClickException):
    """A command failed.

    Args:
        what: one sentence: what is wrong, where, and why.
        next_step: what to do about it, preferably a command.
        code: exit code.
    """

    def __init__(self, what: str, next_step: str = "", *, code: int = FAILED) -> None:
        super().__init__(what)
        self.next_step = next_step
        self.exit_code = code  # type: ignore[misc]  # click's own subclasses set it per instance too

    def show(self, file: object = None) -> None:
        """Write it to standard error."""
        del file
        click.echo(f"error: {clean(self.message, keep=LINE_END)}", err=True)
        if self.next_step:
            click.echo(f"hint: {clean(self.next_step)}", err=True)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Run what goes on until Ctrl-C: that ends the command without an error, with the usual exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


def run(command: click.Command, args: Sequence[str], program: str) -> int:
    """Run a command and turn whatever ends it into an exit code; what went wrong is on standard error."""
    settings = GlobalOptions()
    try:
        result = command.main(args=list(args), prog_name=program, standalone_mode=False, obj=settings)
    except click.exceptions.Exit as error:
        return error.exit_code
    except Failure as error:
        error.show()
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return error.exit_code
    except click.ClickException as error:
        _reworded(error, lambda: _called(command, args, program)).show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("error: interrupted", err=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  the last resort: one line instead of a traceback
        failure = translated(error) or Failure(
            f"internal error: {type(error).__name__}: {error} (run with -vv for the traceback)",
            "report it with the traceback as a defect",
        )
        if settings.verbosity > 1:
            import traceback

            click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        failure.show()
        return failure.exit_code
    return result if isinstance(result, int) else OK


_NO_INTEGER = re.compile(r"is not a valid integer( range)?$")
"""Of an option with bounds click says that 2.5 is no range, which names no remedy."""


_OTHER_FORMS = re.compile(
    "^'(jsonpath|jsonpath-as-json|jsonpath-file|go-template|go-template-file|custom-columns)\\b"
)
"""The forms of ``-o`` that kubectl has and this command line has not, in click's message about a choice."""


def _called(command: click.Command, args: Sequence[str], program: str) -> tuple[str, click.Command]:
    """Words of the called command (``kaiwo plugin new``), and the command; click's parser knows neither."""
    path = [program]
    for word in args:
        if not isinstance(command, click.Group) or word == "--":
            break
        found = None
        if not word.startswith("-"):
            with suppress(click.ClickException):
                found = command.get_command(click.Context(command), word)
        if found is not None:
            path.append(word)
            command = found
    return " ".join(path), command


def _reworded(error: click.ClickException, called: Callable[[], tuple[str, click.Command]]) -> Failure:
    """Click's own error in the form of all others: lower case, without a full stop, and with a hint.

    Args:
        error: of click.
        called: the command, for an error that does not say where it happened.
    """
    meant = error.ctx and _what_was_meant(error, error.ctx) if isinstance(error, click.UsageError) else ""
    if isinstance(error, click.NoSuchOption):
        text = f"no such option '{error.option_name}'" if meant else _unknown_option(error)
    else:
        text = _NO_INTEGER.sub("is not a whole number", error.format_message().rstrip("."))
    text = text.replace(". Did you mean", "; did you mean")
    # click lists the choices of a missing argument one a line.
    text = " ".join(text.replace(". Choose from:", "; choose one of:").split())
    text = text[:1].lower() + text[1:]
    hint = ""
    if isinstance(error, click.UsageError):
        words, command = called() if error.ctx is None else (error.ctx.command_path, error.ctx.command)
        hint = f"{words} --help"
        if isinstance(error, click.BadOptionUsage) and "does not take a value" in error.message:
            meant = _without_value(error.option_name, command)
        hint = f"{meant}; {hint}" if meant else hint
    return Failure(text, hint, code=error.exit_code)


def _without_value(option: str, command: click.Command) -> str:
    """How a switch is written that has a value, as kubectl takes it (``--wait=false``)."""
    param = next((param for param in command.params if option in param.opts), None)
    return f"write {' or '.join([option, *(param.secondary_opts if param else ())])} alone"


def _unknown_option(error: click.NoSuchOption) -> str:
    from kaiwo.api.suggestion import did_you_mean

    meant = did_you_mean(error.option_name, error.possibilities or ())
    return f"no such option '{error.option_name}'" + (f"; {meant}" if meant else "")


def _what_was_meant(error: click.UsageError, ctx: click.Context) -> str:
    """What people mean who know kubectl or the fields of a workload; empty where nothing fits."""
    if isinstance(error, click.NoSuchOption):
        return _option_meant(error, ctx.command)
    if isinstance(error, click.BadParameter) and _OTHER_FORMS.search(error.message):
        return "kubectl get kaiwojobs has other forms, and jq reads -o json"
    if "unexpected extra argument" in error.message:
        from kaiwo.client.kinds import KIND_NAMES

        kind = ctx.params.get("name")
        if isinstance(kind, str) and kind.lower() in KIND_NAMES:
            return f"write {kind}/NAME as one word"
    return ""


def _option_meant(error: click.NoSuchOption, command: click.Command) -> str:
    from kaiwo.cli.other_commands import equivalent_options

    if "sets" in (param.name for param in command.params):
        from kaiwo.api.workload_spec import JobSpec, ServiceSpec

        name = error.option_name.lstrip("-")
        fields = {**JobSpec.model_fields, **ServiceSpec.model_fields}
        if name in {field.alias or word for word, field in fields.items()}:
            return f"a field of the file is changed with --set {name}=VALUE"
    if command.name == "exec" and not error.possibilities:
        return "a command with options stands after --: kaiwo exec NAME -- COMMAND"
    return equivalent_options(command.name or "").get(error.option_name, "")


def translated(error: Exception) -> Failure | None:
    """The errors of client and engine in the command line's words; None for an error of no known type."""
    from kaiwo.client.errors import ClientError
    from kaiwo.engine import errors

    match error:
        case ClientError():
            return Failure(error.message, error.next_step, code=error.exit_code)
        case errors.CredentialsError():
            return Failure(str(error), _CREDENTIALS_HINT)
        case errors.ConnectionBroken():
            return Failure(f"no answer from the API server: {plain(error)}", "kubectl cluster-info")
        case errors.Forbidden(status=401):
            return Failure(
                f"credentials not accepted by the API server: {error}",
                "log in to the cluster again, or choose another one with --context NAME",
            )
        case errors.Forbidden():
            return Failure(
                f"not allowed: {error}",
                "kubectl auth whoami; ask an administrator for the right",
            )
        case errors.NotFound():
            return _not_found(error)
        case errors.ApiError():
            return Failure(f"request rejected by the API server: {error}")
        case TimeoutError():
            return Failure("timed out", code=TIMED_OUT)
        case OSError():
            about = f"{error.filename}: " if error.filename else ""
            return Failure(
                f"{about}{error.strerror or error}",
                "check the permissions (ls -l) and the free space (df -h)",
            )
    return None


def _not_found(error: ApiError) -> Failure:
    if error.details.get("kind") == "namespaces":
        text = f'namespace "{error.details.get("name")}" not found'
        return Failure(text, "kubectl get namespaces", code=NOT_FOUND)
    return Failure(str(error), "kaiwo list -A", code=NOT_FOUND)


def plain(error: Exception) -> str:
    """An error's text without the Python objects that a library put into it."""
    return re.sub(r" ssl:<[^>]*>", "", str(error))
