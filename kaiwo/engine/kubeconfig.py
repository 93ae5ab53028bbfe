"""Reading kubeconfig files: merge as kubectl does, pick a context, build TLS settings."""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaiwo.engine.errors import CredentialsError
from kaiwo.engine.trust import trusting
from kaiwo.engine.yaml_reader import parse_value
from kaiwo.engine.yaml_scalars import DocumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object

_LISTS = ("clusters", "users", "contexts")
_FILE_FIELDS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_OTHER_WAYS = ("token", "tokenFile", "exec", "auth-provider", "username")


@dataclass(frozen=True, slots=True)
class Chosen:
    """One context with its cluster and user, file paths made absolute.

    Attributes:
        config: the merged kubeconfig.
        context: name of the context.
        cluster: the ``cluster`` section.
        user: the ``user`` section, empty when there is none.
        namespace: the context's namespace, ``default`` when it names none.
        where: file and context, for messages.
    """

    config: Object
    context: str
    cluster: Object
    user: Object
    namespace: str
    where: str


def read(paths: Sequence[Path], context: str | None) -> Chosen:
    """Read and merge files and pick a context.

    Of files that name the same thing, the first wins. Files that do not exist are passed over, as
    kubectl does for entries of KUBECONFIG, unless none exists.

    Raises:
        CredentialsError: nothing readable, no such context, or a context that names nothing that exists.
    """
    merged = _merged(paths)
    where = f"kubeconfig {', '.join(str(path) for path in paths)}"
    name = context or merged.get("current-context")
    if not name:
        known = ", ".join(sorted(str(c["name"]) for c in merged["contexts"])) or "none"
        raise CredentialsError(f"{where}: current-context is not set; choose one of: {known}")
    chosen = _section(merged, "contexts", str(name), where, "context")
    where = f"{where}, context {name}"
    cluster = _section(merged, "clusters", str(chosen.get("cluster") or ""), where, "cluster")
    if not isinstance(cluster.get("server"), str) or not cluster["server"].startswith(
        ("http://", "https://")
    ):
        raise CredentialsError(f"{where}: cluster.server must be an http or https URL")
    user_name = str(chosen.get("user") or "")
    user = _section(merged, "users", user_name, where, "user") if user_name else {}
    return Chosen(
        merged,
        str(name),
        cluster,
        user,
        str(chosen.get("namespace") or "default"),
        where,
    )


def tls(
    cluster: Object, user: Object, where: str, certificate: tuple[str, str] | None = None
) -> ssl.SSLContext | None:
    """TLS settings for a cluster and a user; None for plain http.

    Args:
        cluster: the ``cluster`` section.
        user: the ``user`` section.
        where: for messages.
        certificate: client certificate and key as PEM, in place of the user's (from a credential plugin).

    Raises:
        CredentialsError: a certificate or key that cannot be read.
    """
    if not str(cluster["server"]).startswith("https://"):
        return None
    try:
        authority = _pem(cluster, "certificate-authority")
        context = trusting(cadata=authority)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        pair = certificate or (_pem(user, "client-certificate"), _pem(user, "client-key"))
        _refuse_half(pair, user, where)
        if pair[0] and pair[1]:
            _load_pair(context, pair[0], pair[1])
    except (OSError, ssl.SSLError, ValueError, binascii.Error) as error:
        raise CredentialsError(f"{where}: TLS settings: {error}") from error
    return context


def contexts(paths: Sequence[Path]) -> list[str]:
    """The names of the contexts of some files.

    Raises:
        CredentialsError: nothing readable.
    """
    return sorted(str(entry["name"]) for entry in _merged(paths)["contexts"])


def _merged(paths: Sequence[Path]) -> Object:
    found = [path for path in paths if path.is_file()]
    if not found:
        names = ", ".join(f"{path}: {'is not a file' if path.exists() else 'no such file'}" for path in paths)
        raise CredentialsError(
            f"no kubeconfig: {names}. Name one with --kubeconfig or the KUBECONFIG variable."
        )
    merged: Object = {"apiVersion": "v1", "kind": "Config", **{name: [] for name in _LISTS}}
    for path in found:
        _merge(merged, _load(path), path.parent.resolve())
    return merged


def _refuse_half(pair: tuple[str | None, str | None], user: Object, where: str) -> None:
    """A certificate needs its key, as for kubectl, which uses a key alone for nothing.

    Beside another way to authenticate a key alone is harmless; without one every request would be anonymous.
    """
    certificate, key = pair
    if certificate and not key:
        raise CredentialsError(
            f"{where}: client-key-data or client-key must be specified beside the client certificate"
        )
    if key and not certificate and not any(user.get(way) for way in _OTHER_WAYS):
        raise CredentialsError(
            f"{where}: client-certificate-data or client-certificate must be specified beside the client key"
        )


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """The ssl module reads a key only from a file: one that is readable by us alone and gone at once."""
    with tempfile.TemporaryDirectory(prefix="kaiwo-") as directory:
        path = Path(directory, "pair.pem")
        path.touch(mode=0o600)
        path.write_text(f"{certificate}\n{key}\n", encoding="utf-8")
        context.load_cert_chain(path, password=_refuse_password)


def _pem(section: Object, field: str) -> str | None:
    """PEM text of ``FIELD-data`` (base64, preferred as in kubectl) or of the file named by ``FIELD``."""
    data = section.get(f"{field}-data")
    if data:
        return _ascii(base64.b64decode(str(data), validate=False))
    path = section.get(field)
    if not path:
        return None
    try:
        return _ascii(Path(str(path)).read_bytes())
    except OSError as error:
        raise ValueError(f"{field} {path} cannot be read: {error.strerror}") from error


def _ascii(pem: bytes) -> str:
    """PEM as text. Only comments have other characters, and the ssl module takes none of them."""
    return pem.decode("ascii", errors="ignore")


def _refuse_password() -> str:
    """In place of OpenSSL's own question on the terminal, which an operator would wait at for ever."""
    raise ValueError("the client key is encrypted; write it without a passphrase, kubectl takes no other")


def _load(path: Path) -> Object:
    try:
        loaded = parse_value(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, DocumentError) as error:
        # A parser's message quotes the text around the mistake, and that may be a token.
        detail = error.strerror if isinstance(error, OSError) else "not YAML of a kubeconfig"
        line = f", line {error.line}" if isinstance(error, DocumentError) else ""
        raise CredentialsError(f"kubeconfig {path}{line}: cannot be read: {detail}") from None
    if not isinstance(loaded, dict):
        raise CredentialsError(f"kubeconfig {path}: is empty or not a mapping")
    return loaded


def _merge(into: Object, config: Object, base: Path) -> None:
    if not into.get("current-context") and config.get("current-context"):
        into["current-context"] = config["current-context"]
    for name in _LISTS:
        entries = config.get(name)
        known = {entry["name"] for entry in into[name]}
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"] not in known:
                section = _absolute(entry.get(name[:-1]), base)
                into[name].append({"name": entry["name"], name[:-1]: section})
                known.add(entry["name"])


def _absolute(section: Any, base: Path) -> Object:
    """Relative file names in a kubeconfig are relative to that file; a plain command is searched for."""
    made = dict(section) if isinstance(section, dict) else {}
    for field in _FILE_FIELDS:
        if isinstance(made.get(field), str) and made[field]:
            made[field] = str(base / made[field])
    plugin = made.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command") or ""):
        made["exec"] = {**plugin, "command": str(base / str(plugin["command"]))}
    return made


def _section(config: Object, list_name: str, name: str, where: str, what: str) -> Object:
    for entry in config[list_name]:
        if entry["name"] == name:
            section: Object = entry[what]
            return section
    names = sorted(str(entry["name"]) for entry in config[list_name])
    import difflib  # rarely needed, and every command reads a kubeconfig

    near = difflib.get_close_matches(name, names, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(names) or 'none'}"
    raise CredentialsError(f"{where}: no {what} named {name!r}; {hint}")
