"""Kubeconfigs, service accounts, credential plugins."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import in_cluster, load, static
from kaiwo.engine.errors import CredentialsError, Forbidden
from kaiwo.engine.resource import NODE, Resource


def config(user: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:
    """A kubeconfig with one context."""
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }


def text(path: str | Path) -> str:
    """Content of a file."""
    return Path(path).read_text()


def write(path: Path, content: dict[str, Any]) -> Path:
    """Write YAML."""
    path.write_text(yaml.safe_dump(content))
    return path


async def test_token_namespace_and_server_come_from_the_context(tmp_path: Path) -> None:
    """The plain case."""
    connection = load(write(tmp_path / "k", config({"token": "t0ken"})))
    assert (connection.server, connection.namespace) == ("http://127.0.0.1:1", "team")
    assert await connection.headers() == {"Authorization": "Bearer t0ken"}


async def test_a_password_is_sent_as_basic(tmp_path: Path) -> None:
    """Old clusters still have them."""
    connection = load(write(tmp_path / "k", config({"username": "me", "password": "pw"})))
    expected = base64.b64encode(b"me:pw").decode()
    assert await connection.headers() == {"Authorization": f"Basic {expected}"}


async def test_a_rotated_token_file_is_read_again(tmp_path: Path) -> None:
    """After a 401 the file is read again; a file that vanishes leaves the last token."""
    (tmp_path / "token").write_text("one\n")
    connection = load(write(tmp_path / "k", config({"tokenFile": "token"})))
    assert await connection.headers() == {"Authorization": "Bearer one"}
    (tmp_path / "token").write_text("two")
    assert await connection.headers() == {"Authorization": "Bearer one"}
    assert await connection.headers(refresh=True) == {"Authorization": "Bearer two"}
    (tmp_path / "token").unlink()
    assert await connection.headers(refresh=True) == {"Authorization": "Bearer two"}


def plugin(tmp_path: Path, code: str) -> dict[str, Any]:
    """A user with a credential plugin."""
    script = tmp_path / "plugin.py"
    script.write_text(code)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script)],
            "interactiveMode": "Never",
        }
    }


ANSWER = """
import json, pathlib
count = pathlib.Path({count!r})
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {{"token": f"t{{number}}", "expirationTimestamp": {ends!r}}}}}))
"""


async def test_a_credential_plugin_runs_once_until_its_token_ends(tmp_path: Path) -> None:
    """Ten requests at once cost one run; a 401 costs one more."""
    code = ANSWER.format(count=str(tmp_path / "count"), ends="2199-01-01T00:00:00Z")
    connection = load(write(tmp_path / "k", config(plugin(tmp_path, code))))
    found = await asyncio.gather(*(connection.headers() for _ in range(10)))
    assert {h["Authorization"] for h in found} == {"Bearer t1"}
    again = await asyncio.gather(*(connection.headers(refresh=True) for _ in range(5)))
    assert {h["Authorization"] for h in again} == {"Bearer t2"}


async def test_a_token_that_ends_is_renewed(tmp_path: Path) -> None:
    """Nothing is sent with a token that ends within the minute."""
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))
    code = ANSWER.format(count=str(tmp_path / "count"), ends=soon)
    connection = load(write(tmp_path / "k", config(plugin(tmp_path, code))))
    assert await connection.headers() == {"Authorization": "Bearer t1"}
    assert await connection.headers() == {"Authorization": "Bearer t2"}


async def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    """The message says which plugin, why, and what to do."""
    user = plugin(tmp_path, "import sys; sys.exit('no session')")
    connection = load(write(tmp_path / "k", config(user)))
    with pytest.raises(CredentialsError, match=r"credential plugin .* failed: .*no session.*by hand"):
        await connection.headers()


async def test_of_two_files_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG with several files is merged as kubectl does; files that do not exist are passed over."""
    first = config({"token": "first"})
    second = config({"token": "second"})
    second["contexts"].append({"name": "other", "context": {"cluster": "k", "user": "u2"}})
    second["users"].append({"name": "u2", "user": {"token": "third"}})
    paths = [tmp_path / "missing", write(tmp_path / "a", first), write(tmp_path / "b", second)]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    assert await load().headers() == {"Authorization": "Bearer first"}
    assert await load(context="other").headers() == {"Authorization": "Bearer third"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": ""}, "current-context is not set; choose one of: c"),
        ({"current-context": "x"}, "no context named 'x'; known: c"),
        ({"clusters": []}, "no cluster named 'k'; known: none"),
        ({"users": [{"name": "other", "user": {}}]}, "no user named 'u'; known: other"),
        ({"clusters": [{"name": "k", "cluster": {"server": "ftp://x"}}]}, "must be an http or https URL"),
        ({"users": [{"name": "u", "user": {"as-groups": ["g"]}}]}, "user.as is not set"),
        ({"users": [{"name": "u", "user": {"as": ["root"]}}]}, "user.as: expected a string of one line"),
        (
            {"users": [{"name": "u", "user": {"as": "a", "as-groups": "g"}}]},
            "user.as-groups: expected a list of strings",
        ),
        ({"users": "nonsense", "contexts": [None, 3, {"name": 5}]}, "no context named"),
    ],
)
def test_an_invalid_kubeconfig_is_reported(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """File, place and what is known; never a traceback."""
    path = write(tmp_path / "k", {**config(), **change})
    with pytest.raises(CredentialsError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


async def test_impersonation_is_sent_as_kubectl_sends_it(tmp_path: Path) -> None:
    """User, uid, every group and every extra value; keys of extras are escaped as header names need it."""
    user = {
        "token": "t",
        "as": "ada",
        "as-uid": "7",
        "as-groups": ["one", "two"],
        "as-user-extra": {"example.com/Scope": ["read", "write"]},
    }
    headers = await load(write(tmp_path / "k", config(user))).headers()
    assert list(headers.items()) == [
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "ada"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "one"),
        ("Impersonate-Group", "two"),
        ("Impersonate-Extra-example.com%2FScope", "read"),
        ("Impersonate-Extra-example.com%2FScope", "write"),
    ]


@pytest.mark.cluster
async def test_the_api_server_sees_the_impersonated_user(control_plane: Any, tmp_path: Path) -> None:
    """Name, uid, all groups and extra values arrive; the rights are those of that user."""
    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    content["users"][0]["user"] |= {
        "as": "ada",
        "as-uid": "7",
        "as-groups": ["one", "two"],
        "as-user-extra": {"example.com/scope": ["read", "write"]},
    }
    review = Resource(
        "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False
    )
    body = {"apiVersion": review.api_version, "kind": review.kind, "metadata": {}}
    async with Client(load(write(tmp_path / "k", content))) as client:
        seen = (await client.create(review, body))["status"]["userInfo"]
        with pytest.raises(Forbidden, match='User "ada" cannot list'):
            [node async for node in client.list(NODE)]
    assert (seen["username"], seen["uid"]) == ("ada", "7")
    assert set(seen["groups"]) == {"one", "two", "system:authenticated"}
    assert seen["extra"] == {"example.com/scope": ["read", "write"]}


@pytest.mark.parametrize("content", ["", "[]", "a: [", "token: 'SECRET\n  x: {", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_refused_without_quoting_it(tmp_path: Path, content: str) -> None:
    """A parser's message may quote a token; ours does not."""
    path = tmp_path / "k"
    path.write_text(content)
    with pytest.raises(CredentialsError) as caught:
        load(path)
    assert "SECRET" not in str(caught.value)


def test_the_usual_proxy_variables_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """proxy-url comes first; NO_PROXY and loopback addresses go around; what cannot be used is refused."""
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    for server, proxy in (
        ("http://outside.example:6443", "http://proxy:3128"),
        ("http://inside.example:6443", None),
        ("http://127.0.0.1:6443", None),
    ):
        assert load(write(tmp_path / "k", config(server=server))).proxy == proxy
    own: dict[str, Any] = {"server": "http://outside.example", "proxy-url": "http://own:1"}
    socks: dict[str, Any] = {"proxy-url": "socks5://ada:s3cret@x:1"}
    assert load(write(tmp_path / "k", config(**own))).proxy == "http://own:1"
    with pytest.raises(CredentialsError, match=r"socks5://x:1.*only http and https proxies") as caught:
        load(write(tmp_path / "k", config(**socks)))
    assert "s3cret" not in str(caught.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """With the way to name another one."""
    with pytest.raises(CredentialsError, match=r"no such file.*--kubeconfig"):
        load(tmp_path / "none")


def test_a_directory_in_place_of_a_kubeconfig_is_no_missing_file(tmp_path: Path) -> None:
    """Whoever looks finds that it exists."""
    with pytest.raises(CredentialsError, match=r"is not a file.*--kubeconfig"):
        load(tmp_path)


def test_a_certificate_that_is_not_there_is_reported_with_its_field(tmp_path: Path) -> None:
    """A kubeconfig names up to three files; the message says which of them is missing."""
    missing = config({}, **{"certificate-authority": "/none/ca.crt", "server": "https://127.0.0.1:1"})
    with pytest.raises(
        CredentialsError, match=r"certificate-authority /none/ca\.crt cannot be read: No such"
    ):
        load(write(tmp_path / "k", missing))


@pytest.mark.parametrize("data", ["not base64 !", base64.b64encode(b"no certificate").decode()])
def test_a_broken_certificate_is_reported(tmp_path: Path, data: str) -> None:
    """Bad TLS material names the context and does not crash."""
    broken = config({}, **{"certificate-authority-data": data, "server": "https://127.0.0.1:1"})
    with pytest.raises(CredentialsError, match="TLS settings"):
        load(write(tmp_path / "k", broken))


@pytest.mark.parametrize(
    ("user", "missing"),
    [
        ({"client-certificate-data": "PEM"}, "client-key-data or client-key"),
        ({"client-certificate": "pem", "token": "t"}, "client-key-data or client-key"),
        ({"client-key": "pem"}, "client-certificate-data or client-certificate"),
        ({"client-key-data": "PEM"}, "client-certificate-data or client-certificate"),
    ],
)
def test_half_of_a_client_certificate_is_refused(tmp_path: Path, user: dict[str, Any], missing: str) -> None:
    """Without the other half the API server would see an anonymous user, and its answer would not say why."""
    (tmp_path / "pem").write_text("PEM")
    data = base64.b64encode(b"PEM").decode()
    half = {field: data if value == "PEM" else value for field, value in user.items()}
    path = write(tmp_path / "k", config(half, server="https://127.0.0.1:1"))
    with pytest.raises(CredentialsError, match=f"context c: {missing} must be specified"):
        load(path)


async def test_a_key_beside_a_token_is_passed_over(tmp_path: Path) -> None:
    """As by kubectl, which uses a key for nothing without its certificate."""
    (tmp_path / "pem").write_text("PEM")
    user = {"client-key": "pem", "token": "t"}
    connection = load(write(tmp_path / "k", config(user, server="https://127.0.0.1:1")))
    assert await connection.headers() == {"Authorization": "Bearer t"}


@pytest.mark.parametrize("half", ["clientCertificateData", "clientKeyData"])
async def test_half_of_a_certificate_from_a_credential_plugin_is_refused(tmp_path: Path, half: str) -> None:
    """Also beside a token: the plugin meant something else than what would be sent."""
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {half: "PEM", "token": "t"},
    }
    user = plugin(tmp_path, f"print({json.dumps(answer)!r})")
    connection = load(write(tmp_path / "k", config(user)))
    with pytest.raises(CredentialsError, match="only a client certificate or only a key"):
        await connection.headers()


def test_outside_of_a_cluster_there_is_no_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables that are missing are named."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster(tmp_path)


async def test_plain_values_make_a_connection() -> None:
    """For tests and tools."""
    connection = static("http://127.0.0.1:8080/", token="t")
    assert connection.server == "http://127.0.0.1:8080"
    assert await connection.headers() == {"Authorization": "Bearer t"}


async def test_a_token_of_an_identity_provider_is_taken_as_long_as_it_lasts(tmp_path: Path) -> None:
    """OpenID Connect users of a kubeconfig are served through the `kubernetes` package."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, {"exp": 7258118400, "p": "xx"})]
    token = ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), "sig"])
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token, "idp-issuer-url": "https://x"}}}
    connection = load(write(tmp_path / "k", config(user)))
    assert await connection.headers() == {"Authorization": f"Bearer {token}"}
    nothing = {"auth-provider": {"name": "oidc", "config": {"id-token": "no.token"}}}
    with pytest.raises(CredentialsError, match="gave no token"):
        await load(write(tmp_path / "n", config(nothing))).headers()


@pytest.mark.cluster
async def test_a_pod_reaches_the_api_server_with_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control_plane: Any
) -> None:
    """Address from the environment, CA, token and namespace from the mount."""
    (tmp_path / "token").write_text(control_plane.token)
    (tmp_path / "ca.crt").write_text(text(control_plane.ca_file))
    (tmp_path / "namespace").write_text("kaiwo-system")
    address = urlsplit(control_plane.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    connection = in_cluster(tmp_path)
    assert connection.namespace == "kaiwo-system"
    async with Client(connection) as client:
        assert (await client.get_json("/api/v1/namespaces/default"))["kind"] == "Namespace"


@pytest.mark.cluster
async def test_a_certificate_from_a_credential_plugin_is_used(tmp_path: Path, control_plane: Any) -> None:
    """A plugin may hand out a client certificate in place of a token."""
    certificate = text(control_plane.client_certificate)
    key = text(control_plane.client_key)
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    user = plugin(tmp_path, f"print({json.dumps(answer)!r})")
    path = write(
        tmp_path / "k",
        config(user, **{"server": control_plane.url, "certificate-authority": str(control_plane.ca_file)}),
    )
    async with Client(load(path)) as client:
        assert (await client.get_json("/api/v1/namespaces/default"))["kind"] == "Namespace"


def test_loading_does_not_import_the_kubernetes_package(tmp_path: Path) -> None:
    """20 MB and 0.2 s that an operator and a command line do without."""
    import subprocess

    path = write(tmp_path / "k", config({"token": "t"}))
    code = (
        "import sys, json; from kaiwo.engine.credentials import load; "
        f"load({str(path)!r}); print(json.dumps('kubernetes' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) is False


async def test_a_plugin_that_is_not_installed_is_named_with_how_to_install_it(tmp_path: Path) -> None:
    """The kubeconfig of a managed cluster says how; the command of another machine is often missing."""
    hint = "Install gke-gcloud-auth-plugin for use with kubectl by following\n  https://cloud.example/install"
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "gke-gcloud-auth-plugin-none",
            "installHint": hint,
            "provideClusterInfo": True,
        }
    }
    connection = load(write(tmp_path / "k", config(user)))
    said = (
        r"'gke-gcloud-auth-plugin-none' is not installed, or not on the PATH: Install .* following https://"
    )
    with pytest.raises(CredentialsError, match=said):
        await connection.headers()


async def test_a_plugin_writes_its_own_message_where_standard_error_is_the_process_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error refers to it, and does not repeat it."""
    connection = load(write(tmp_path / "k", config(plugin(tmp_path, "import sys; sys.exit('no session')"))))
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    with pytest.raises(CredentialsError, match="failed: see its own message above") as caught:
        await connection.headers()
    assert "no session" not in str(caught.value)
    assert "no session" in capfd.readouterr().err


SAYS = """
import json, os, sys
print("open https://login.example and enter ABC", file=sys.stderr, flush=True)
spec = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {"token": f"{len(sys.stdin.read())}-{spec['interactive']}"}}))
"""


def test_a_plugin_in_a_pipe_shows_its_prompt_and_leaves_the_input_to_the_command(tmp_path: Path) -> None:
    """``kaiwo submit - | jq`` must show the code to log in with, and still have its manifest."""
    import subprocess

    user = plugin(tmp_path, SAYS)
    user["exec"]["interactiveMode"] = "IfAvailable"
    path = write(tmp_path / "k", config(user))
    code = (
        "import asyncio, sys; from kaiwo.engine.credentials import load; "
        f"print(asyncio.run(load({str(path)!r}).headers())['Authorization'], sys.stdin.read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="manifest", capture_output=True, check=True, text=True
    )
    assert done.stdout == "Bearer 0-False manifest\n"
    assert done.stderr == "open https://login.example and enter ABC\n"


@pytest.mark.parametrize(("mode", "interactive"), [("IfAvailable", True), ("Never", False)])
async def test_a_plugin_may_ask_on_a_terminal_unless_the_kubeconfig_forbids_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, interactive: bool
) -> None:
    """Standard input decides, wherever standard output goes."""
    user = plugin(tmp_path, SAYS)
    user["exec"]["interactiveMode"] = mode
    connection = load(write(tmp_path / "k", config(user)))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    assert await connection.headers() == {"Authorization": f"Bearer 0-{interactive}"}


async def test_a_plugin_that_must_ask_is_not_started_where_nobody_can_answer(tmp_path: Path) -> None:
    """As by kubectl; it would wait, or fail with a message of its own."""
    user = plugin(tmp_path, f"open({str(tmp_path / 'started')!r}, 'w')")
    user["exec"]["interactiveMode"] = "Always"
    connection = load(write(tmp_path / "k", config(user)))
    with pytest.raises(CredentialsError, match="asks for input, and standard input is not a terminal"):
        await connection.headers()
    assert not (tmp_path / "started").exists()


async def test_a_plugin_is_started_relative_to_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several files each has its own directory; the working directory is that of the caller."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    script = tmp_path / "second" / "login"
    code = ANSWER.format(count=str(tmp_path / "count"), ends="2199-01-01T00:00:00Z")
    script.write_text(f"#!{sys.executable}\n{code}")
    script.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "args": None}}
    paths = [write(tmp_path / "first" / "k", config() | {"users": []}), tmp_path / "second" / "k"]
    write(paths[1], config(user))
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    assert await load().headers() == {"Authorization": "Bearer t1"}


async def test_a_plugin_gets_the_cluster_that_it_wants_to_know(tmp_path: Path) -> None:
    """Server, authority as data also where it is a file, and the extension for plugins; nothing else."""
    code = (
        "import json, os; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']); "
        "print(json.dumps({'apiVersion': info['apiVersion'], 'status': {'token': "
        "json.dumps(info['spec']['cluster'], sort_keys=True) + os.environ['MODE']}}))"
    )
    user = plugin(tmp_path, code)
    user["exec"] |= {"provideClusterInfo": True, "env": [{"name": "MODE", "value": "x"}]}
    (tmp_path / "ca.crt").write_text("PEM")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    path = write(
        tmp_path / "k",
        config(user, **{"certificate-authority": "ca.crt", "extensions": [extension, {"name": "other"}]}),
    )
    wanted = {
        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
        "config": {"audience": "a"},
        "server": "http://127.0.0.1:1",
    }
    found = await load(path).headers()
    assert found["Authorization"] == f"Bearer {json.dumps(wanted, sort_keys=True)}x"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('SECRET')", "something else than JSON"),
        ("print('[]')", "no ExecCredential with a status"),
        ("""print('{"apiVersion": "v0", "status": {"token": "SECRET"}}')""", "it answers in v0"),
        ("print(chr(0) * 3)", "something else than JSON"),
    ],
)
async def test_an_answer_that_is_no_credential_is_reported_without_it(
    tmp_path: Path, code: str, why: str
) -> None:
    """What a plugin writes to standard output is secret, whatever it is."""
    connection = load(write(tmp_path / "k", config(plugin(tmp_path, code))))
    with pytest.raises(CredentialsError, match=f"credential plugin .* failed: .*{why}") as caught:
        await connection.headers()
    assert "SECRET" not in str(caught.value)


def test_a_kubeconfig_at_home_goes_before_the_service_account_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for kubectl: in a notebook that is a pod people are who their kubeconfig says; else the pod."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t")
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", account)
    monkeypatch.setattr(credentials, "in_cluster", lambda: credentials.static("http://pod.example"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert load().server == "http://pod.example"
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").touch()
    assert load().server == "http://pod.example"
    write(tmp_path / ".kube" / "config", config({"token": "mine"}))
    assert load().server == "http://127.0.0.1:1"
