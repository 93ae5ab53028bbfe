"""The API server's errors about a workload, at the lines of the file that they concern."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaiwo.api.errors import UNKNOWN_FIELD, Problem
from kaiwo.cli.failures import FAILED, NOT_FOUND, USAGE, plain

if TYPE_CHECKING:
    from kaiwo.cli.input_files.problems import LocatedProblem
    from kaiwo.cli.input_files.workload_file import WorkloadFile
    from kaiwo.plugin.registry import Plugins

_UNDECLARED = re.compile(r"\.(\S+): field not declared in schema")
"""The message of a server-side apply, with status 500, when the cluster's CRD lacks a field."""

_DENIED = re.compile(
    r"ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request: (.+)", re.DOTALL
)
"""The API server's message for an object that an admission policy denies: the policy, and its reason."""


def denied_by_policy(error: BaseException) -> str:
    """The words of an admission policy that refuses an object; empty for any other error.

    Rights that somebody lacks tell nothing of the object, a policy does.
    """
    denied = _DENIED.search(str(error))
    return denied[1] if denied else ""


def rejections(manifest: WorkloadFile, error: BaseException, plugins: Plugins) -> list[LocatedProblem]:
    """One problem for each thing that the API server rejects; any other error is raised again.

    Args:
        manifest: what was sent.
        error: the answer.
        plugins: loaded here; one may declare a field that the cluster lacks.
    """
    return [manifest.locate(problem) for problem in _problems(manifest, error, plugins)]


def _problems(manifest: WorkloadFile, error: BaseException, plugins: Plugins) -> list[Problem]:
    from kaiwo.client.errors import ClientError
    from kaiwo.engine import errors

    match error:
        case errors.Invalid() if error.causes:
            return [Problem(cause.field, cause.message) for cause in error.causes]
        case errors.NotFound() if error.details.get("kind") == "namespaces":
            namespace = manifest.metadata.get("namespace")
            hint = f"kubectl create namespace {namespace}, or choose another one with -n"
            return [Problem("metadata.namespace", f'namespace "{namespace}" not found', hint)]
        case errors.Forbidden() if denial := denied_by_policy(error):
            return [Problem("", f"refused by a policy of the cluster: {denial}")]
        case errors.Forbidden(status=401):
            raise error
        case errors.Forbidden():
            hint = "kubectl auth whoami shows who you are; ask an administrator for the right"
            return [Problem("", f"not allowed: {error}", hint)]
        case errors.ApiError() if undeclared := _UNDECLARED.search(error.message):
            who = _declaring(manifest, undeclared[1], plugins)
            hint = f"remove the field, or ask an administrator to install {who}"
            return [Problem(undeclared[1], f"{UNKNOWN_FIELD} in this cluster", hint)]
        case errors.ApiError():
            return [Problem("", f"rejected by the API server: {error}")]
        case errors.ConnectionBroken():
            return [Problem("", f"no answer from the API server: {plain(error)}", "run the command again")]
        case ClientError():
            return [Problem("", error.message, error.next_step)]
    raise error


def _declaring(manifest: WorkloadFile, path: str, plugins: Plugins) -> str:
    """The plugin that declares a field here and is not in the cluster."""
    wanted = tuple(path.removeprefix("spec.").split("."))
    for plugin in plugins.loaded:
        for field in plugin.fields():
            if field.kind == manifest.kind and field.path[: len(wanted)] == wanted[: len(field.path)]:
                return f"plugin {plugin.name} of {plugin.distribution} in the cluster"
    return "the plugin that declares it"


def exit_code(error: BaseException) -> int:
    """2 for an invalid manifest, 3 for a missing namespace, else 1."""
    from kaiwo.engine import errors

    match error:
        case errors.Invalid():
            return USAGE
        case errors.NotFound():
            return NOT_FOUND
    return FAILED
