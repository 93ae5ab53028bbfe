"""How to reach an API server: address, TLS settings, and headers that stay fresh.

Plain kubeconfigs and in-cluster service accounts are read here: the `kubernetes` package does it too, but
costs 20 MB and 0.2 s in every process, and reads a ``tokenFile`` only once. It is imported for identity
providers alone.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from multidict import CIMultiDict

from kaiwo.engine import kubeconfig as files
from kaiwo.engine.auth import Authenticator, Static, TokenFile, exec_plugin, identity_provider
from kaiwo.engine.errors import CredentialsError
from kaiwo.engine.impersonation import impersonation_headers
from kaiwo.engine.proxy import environment_proxy, without_user

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts token, CA and namespace of a pod's service account."""

_USUAL = Path("~/.kube/config")


class Connection:
    """An API server and the right to talk to it.

    Attributes:
        server: base URL without a trailing slash.
        ssl_context: TLS settings with CA and client certificate, None for plain http. May change when a
            credential plugin hands out a new certificate: read it for every request.
        namespace: the context's namespace, or that of the pod's service account, or ``default``.
        proxy: URL of an HTTP proxy, or None.
        server_hostname: name to expect in the server's certificate, when it is not the URL's.
        impersonation: headers that name the user to act as; a name may come several times.
    """

    def __init__(
        self,
        server: str,
        *,
        ssl_context: ssl.SSLContext | None = None,
        namespace: str = "default",
        proxy: str | None = None,
        server_hostname: str | None = None,
        authenticator: Authenticator | None = None,
        impersonation: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.server = server.rstrip("/")
        self.ssl_context = ssl_context
        self.namespace = namespace
        self.proxy = proxy
        self.server_hostname = server_hostname
        self.impersonation = tuple(impersonation)
        self._authenticator: Authenticator = authenticator or Static()

    async def headers(self, *, refresh: bool = False) -> CIMultiDict[str]:
        """Authorization headers that are valid now, and those of impersonation; the caller's own.

        Args:
            refresh: the last ones were refused (401); get new ones.

        Raises:
            CredentialsError: a credential plugin or token file failed.
        """
        headers = CIMultiDict(await self._authenticator.headers(refresh=refresh))
        headers.extend(self.impersonation)
        return headers

    def use(self, authenticator: Authenticator) -> None:
        """Take headers from another source from now on."""
        self._authenticator = authenticator


def load(kubeconfig: str | Path | None = None, context: str | None = None) -> Connection:
    """The connection that a user or a pod means.

    Searched as by kubectl, in this order: the argument, the files of ``KUBECONFIG``, ``~/.kube/config``, the
    pod's service account. In a notebook that runs in a pod, people are who their kubeconfig says.

    Args:
        kubeconfig: path of a file.
        context: name of a context, instead of the file's current one.

    Raises:
        CredentialsError: no such file, context, cluster or user; unreadable certificates; impersonation that
            cannot be sent.
    """
    if (
        kubeconfig is None
        and context is None
        and not os.environ.get("KUBECONFIG", "").strip(os.pathsep)
        and not _is_written(_USUAL)
        and os.environ.get("KUBERNETES_SERVICE_HOST")
        and (SERVICE_ACCOUNT / "token").is_file()
    ):
        return in_cluster()
    return _from_files(_kubeconfigs(kubeconfig), context)


def context_names(kubeconfig: str | Path | None = None) -> list[str]:
    """The names of the contexts that `load` can choose from.

    Raises:
        CredentialsError: no such file, or one that is no kubeconfig.
    """
    return files.contexts(_kubeconfigs(kubeconfig))


def _kubeconfigs(kubeconfig: str | Path | None) -> list[Path]:
    """The files of the argument, else of ``KUBECONFIG``, else the usual one."""
    if kubeconfig is not None:
        return [Path(kubeconfig).expanduser()]
    listed = [Path(part).expanduser() for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return listed or [_USUAL.expanduser()]


def _is_written(path: Path) -> bool:
    """Whether a file of the home directory is there and not empty."""
    try:
        return path.expanduser().is_file() and path.expanduser().stat().st_size > 0
    except (OSError, RuntimeError):  # no home directory
        return False


def in_cluster(service_account: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of a pod's service account; its token is read again as it rotates.

    Raises:
        CredentialsError: the process does not run in a pod, or the mount is incomplete.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise CredentialsError("not in a cluster: KUBERNETES_SERVICE_HOST and _PORT are not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    cluster: Object = {"server": server, "certificate-authority": str(service_account / "ca.crt")}
    namespace_file = service_account / "namespace"
    return Connection(
        server,
        ssl_context=files.tls(cluster, {}, f"service account {service_account}"),
        namespace=namespace_file.read_text().strip() if namespace_file.is_file() else "default",
        proxy=_proxy(cluster, f"service account {service_account}"),
        authenticator=TokenFile(service_account / "token"),
    )


def static(
    server: str,
    *,
    token: str | None = None,
    ca_file: str | Path | None = None,
    namespace: str = "default",
) -> Connection:
    """A connection from plain values, for tests and tools.

    Args:
        server: base URL.
        token: bearer token.
        ca_file: CA certificates (PEM); without it the system's.
        namespace: what counts as the current namespace.

    Raises:
        CredentialsError: a file that cannot be read.
    """
    cluster: Object = {"server": server}
    if ca_file:
        cluster["certificate-authority"] = str(ca_file)
    return Connection(
        server,
        ssl_context=files.tls(cluster, {}, server),
        namespace=namespace,
        authenticator=Static({"Authorization": f"Bearer {token}"} if token else None),
    )


def _from_files(paths: list[Path], context: str | None) -> Connection:
    chosen = files.read(paths, context)
    cluster, user = chosen.cluster, chosen.user
    connection = Connection(
        cluster["server"],
        ssl_context=files.tls(cluster, user, chosen.where),
        namespace=chosen.namespace,
        proxy=_proxy(cluster, chosen.where),
        server_hostname=cluster.get("tls-server-name") or None,
        impersonation=impersonation_headers(user, chosen.where),
    )
    connection.use(_authenticator(chosen, connection))
    return connection


def _proxy(cluster: Object, where: str) -> str | None:
    """The cluster's own proxy, else that of the environment, as for kubectl."""
    found = cluster.get("proxy-url") or environment_proxy(cluster["server"])
    if not found:
        return None
    if urlsplit(str(found)).scheme not in ("http", "https"):
        shown = without_user(str(found))
        raise CredentialsError(f"{where}: proxy {shown!r}: only http and https proxies are supported")
    return str(found)


def _authenticator(chosen: files.Chosen, connection: Connection) -> Authenticator:
    """The first of the user's ways in the order of kubectl: token file, token, exec, provider, password."""
    user = chosen.user
    if user.get("tokenFile"):
        return TokenFile(Path(str(user["tokenFile"])))
    if user.get("token"):
        return Static({"Authorization": f"Bearer {user['token']}"})
    if isinstance(user.get("exec"), dict):

        def take(certificate: str, key: str) -> None:
            connection.ssl_context = files.tls(chosen.cluster, user, chosen.where, (certificate, key))

        return exec_plugin(user, chosen.cluster, chosen.where, take)
    if isinstance(user.get("auth-provider"), dict):
        return identity_provider(chosen.config, chosen.context, chosen.where)
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}".encode()
        return Static({"Authorization": f"Basic {base64.b64encode(pair).decode()}"})
    return Static()
