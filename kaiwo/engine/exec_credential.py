"""Credential plugins of a kubeconfig (``user.exec``), run as kubectl runs them.

The ``kubernetes`` package runs them, too. Where standard output is no terminal it keeps what they say until
they have ended, a code to log in with included, and lets them read what the command itself is to read.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.engine.errors import CredentialsError

if TYPE_CHECKING:
    from typing import TextIO

    from kaiwo.engine.resource import Object

_CLUSTER_FIELDS = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)
"""Fields of a ``cluster`` section that a plugin may know."""

_EXTENSION = "client.authentication.k8s.io/exec"
"""Name of the extension of a cluster with the configuration of plugins."""


def run_plugin(plugin: Object, cluster: Object, where: str) -> Object:
    """Run a credential plugin, and wait until it ends.

    It has standard input only where that is a terminal and the kubeconfig lets it ask. Standard error is that
    of this process, unless a screen or a notebook has put another stream in its place: what the plugin writes
    is then part of the error.

    Args:
        plugin: the ``exec`` section.
        cluster: the ``cluster`` section, which some plugins get.
        where: file and context, for messages.

    Returns:
        ``status`` of its answer.

    Raises:
        CredentialsError: it is not installed, fails, or answers something else than credentials.
    """
    command, version = plugin.get("command"), plugin.get("apiVersion")
    if not isinstance(command, str) or not command or not isinstance(version, str):
        raise CredentialsError(f"{where}: user.exec: expected the texts command and apiVersion")
    name = f"{where}: the credential plugin {command!r}"
    seen = sys.stderr is sys.__stderr__
    mode = plugin.get("interactiveMode")
    interactive = seen and mode != "Never" and _is_terminal(sys.stdin)
    if mode == "Always" and not interactive:
        raise CredentialsError(
            f"{name} asks for input, and standard input is not a terminal. Run this command on a terminal, "
            "and give it a file instead of a pipe."
        )
    try:
        done = subprocess.run(
            [command, *_arguments(plugin)],
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if seen else subprocess.PIPE,
            env={
                **os.environ,
                **_variables(plugin),
                **_info(plugin, cluster, version, interactive=interactive),
            },
            check=False,
        )
    except FileNotFoundError as error:
        raise CredentialsError(f"{where}: {_not_installed(plugin)}") from error
    except (OSError, ValueError) as error:
        raise _failed(name, getattr(error, "strerror", None) or str(error)) from error
    if done.returncode:
        said = " ".join((done.stderr or b"").decode("utf-8", "replace").split())
        why = "see its own message above" if seen else f"exit code {done.returncode}"
        raise _failed(name, f"{why}: {said}" if said else why)
    return _status(done.stdout, version, name)


def _status(output: bytes, version: str, name: str) -> Object:
    """``status`` of an ExecCredential; a parser's message would quote it, and it is secret."""
    try:
        answer = json.loads(output)
    except ValueError:
        raise _failed(name, "it wrote something else than JSON") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("status"), dict):
        raise _failed(name, "it wrote no ExecCredential with a status")
    if answer.get("apiVersion") != version:
        raise _failed(name, f"it answers in {answer.get('apiVersion')}, the kubeconfig says {version}")
    status: Object = answer["status"]
    return status


def _failed(name: str, why: str) -> CredentialsError:
    return CredentialsError(f"{name} failed: {why}. Run it by hand to see why.")


def _arguments(plugin: Object) -> list[str]:
    given = plugin.get("args")
    return [str(one) for one in given] if isinstance(given, list) else []


def _variables(plugin: Object) -> dict[str, str]:
    given = plugin.get("env")
    entries = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {str(one["name"]): str(one.get("value") or "") for one in entries if one.get("name")}


def _info(plugin: Object, cluster: Object, version: str, *, interactive: bool) -> dict[str, str]:
    """The variable in which a plugin finds what is asked of it."""
    spec: Object = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _cluster(cluster)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    return {"KUBERNETES_EXEC_INFO": json.dumps(info)}


def _cluster(cluster: Object) -> Object:
    shown = {field: cluster[field] for field in _CLUSTER_FIELDS if cluster.get(field)}
    authority = cluster.get("certificate-authority")
    if authority and "certificate-authority-data" not in shown:
        # The TLS settings were made of this file before.
        shown["certificate-authority-data"] = base64.b64encode(Path(str(authority)).read_bytes()).decode()
    extensions = cluster.get("extensions")
    for extension in extensions if isinstance(extensions, list) else ():
        if isinstance(extension, dict) and extension.get("name") == _EXTENSION:
            shown["config"] = extension.get("extension")
    return shown


def _not_installed(plugin: Object) -> str:
    """What to say of a credential plugin that does not exist: how to install it, where the file says so."""
    hint = " ".join(str(plugin.get("installHint") or "").split())
    text = f"the credential plugin {plugin.get('command')!r} is not installed, or not on the PATH"
    return f"{text}: {hint}" if hint else text


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:
        return False  # it is closed
