"""``kaiwo delete`` against a server that answers as an API server does: what goes, and what is said."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Cli = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""

ROOT = "/apis/kaiwo.silogen.ai/v1alpha1/namespaces/"


class WorkloadServer(ThreadingHTTPServer):
    """An API server with workloads.

    Attributes:
        workloads: by namespace, plural and name.
        kept: names that the caller may not delete.
        held: names of workloads that something holds back while they are deleted.
        asked: method and path of each request.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.workloads: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.kept: set[str] = set()
        self.held: set[str] = set()
        self.asked: list[str] = []
        for name in ("a", "b", "c"):
            self.add("team", "kaiwojobs", name)

    def add(self, namespace: str, plural: str, name: str, **labels: str) -> None:
        """Create a workload."""
        kind = {"kaiwojobs": "KaiwoJob", "kaiwoservices": "KaiwoService"}[plural]
        self.workloads[namespace, plural, name] = {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "uid": f"u-{kind}-{name}", "labels": labels},
            "spec": {},
        }

    @property
    def left(self) -> list[str]:
        """What still exists, as ``namespace/name``."""
        return [f"{namespace}/{name}" for namespace, _, name in self.workloads]


class _Handler(BaseHTTPRequestHandler):
    server: WorkloadServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """One workload, or a list."""
        key = self._key()
        if len(key) == 1:
            self._answer(200, {"kind": "Namespace", "metadata": {"name": key[0]}})
        elif len(key) == 3:
            self._one(key, lambda obj: self._answer(200, obj))
        else:
            label = parse_qs(urlsplit(self.path).query).get("labelSelector", [""])[0].partition("=")
            found = [
                obj
                for (*place, _), obj in self.server.workloads.items()
                if tuple(place) == key
                and (not label[0] or obj["metadata"]["labels"].get(label[0]) == label[2])
            ]
            self._answer(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": found})

    def do_DELETE(self) -> None:
        """Delete one workload."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = self._key()
        if key[2] in self.server.kept:
            message = f'{key[1]} "{key[2]}" is forbidden: no rights'
            self._answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message})
            return
        if key[2] in self.server.held:
            self.server.workloads[key]["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
            self._one(key, lambda obj: self._answer(200, obj))
        else:
            self._one(key, lambda _: self._answer(200, self.server.workloads.pop(key)))

    def log_message(self, *_: object) -> None:
        """Be silent."""

    def _key(self) -> Any:
        self.server.asked.append(f"{self.command} {self.path}")
        path = urlsplit(self.path).path
        if not path.startswith(ROOT):
            return (path.rpartition("/")[2],)
        return tuple(path.removeprefix(ROOT).split("/"))

    def _one(self, key: Any, use: Callable[[dict[str, Any]], None]) -> None:
        found = self.server.workloads.get(key)
        if found is None:
            details = {"name": key[2], "kind": key[1]}
            self._answer(404, {"kind": "Status", "code": 404, "reason": "NotFound", "details": details})
        else:
            use(found)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkloadServer]:
    """A server that the kubeconfig points to, in the namespace team."""
    with WorkloadServer() as made:
        threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{made.server_port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
        config = {
            "current-context": "x",
            "clusters": [cluster],
            "contexts": [context],
            "users": [{"name": "u"}],
        }
        path = home / "kubeconfig"
        path.write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield made
        made.shutdown()


def test_one_that_may_not_be_deleted_keeps_no_other_one(cli: Cli, server: WorkloadServer) -> None:
    """Which ones stay, and why, is said; those that were named after them are deleted, as by kubectl."""
    server.kept = {"b"}
    result = cli("delete", "a", "b", "c")
    assert server.left == ["team/b"]
    assert result.code == 1
    assert result.err.splitlines() == [
        "job/a deleted",
        'error: job/b was not deleted: not allowed: kaiwojobs "b" is forbidden: no rights',
        "job/c deleted",
        "error: 1 of 3 workloads was not deleted",
        "hint: kubectl auth whoami; ask an administrator for the right",
    ]
    alone = cli("delete", "b")
    assert alone.code == 1
    assert alone.err.startswith('error: not allowed: kaiwojobs "b" is forbidden: no rights\nhint: ')


def manifest(name: str, kind: str = "KaiwoJob", **metadata: str) -> str:
    """One document; its spec could not be sent, which does not matter."""
    head = {"apiVersion": "kaiwo.silogen.ai/v1alpha1", "kind": kind}
    return (
        "---\n" + json.dumps({**head, "metadata": {"name": name, **metadata}, "spec": {"nonsense": 1}}) + "\n"
    )


def test_a_file_names_the_workloads_that_were_sent_from_it(
    cli: Cli, server: WorkloadServer, tmp_path: Path
) -> None:
    """Several documents, directories and standard input, each in the namespace that submit put it in."""
    server.add("other", "kaiwoservices", "chat")
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "two.yaml").write_text(manifest("a") + manifest("chat", "KaiwoService", namespace="other"))
    result = cli("delete", "-f", str(jobs), "-f", "-", stdin=manifest("b").encode())
    assert (result.code, result.err) == (0, "job/a deleted\nservice/chat deleted\njob/b deleted\n")
    assert server.left == ["team/c"]


@pytest.mark.parametrize(
    ("config", "words", "place"),
    [
        ("", [], "team"),
        ("mine", [], "mine"),
        ("mine", ["-n", "given"], "given"),
        ("", ["-n", "given"], "given"),
    ],
)
def test_a_workload_of_a_file_is_where_submit_puts_it(
    cli: Cli, server: WorkloadServer, home: Path, config: str, words: list[str], place: str
) -> None:
    """-n, then kaiwoconfig.yaml, then the context; kubectl delete -f does not know kaiwoconfig.yaml."""
    for namespace in ("mine", "given"):
        server.add(namespace, "kaiwojobs", "a")
    if config:
        (home / ".config" / "kaiwo").mkdir(parents=True)
        (home / ".config" / "kaiwo" / "kaiwoconfig.yaml").write_text(f"namespace: {config}\n")
    assert cli("delete", "-f", "-", *words, stdin=manifest("a").encode()).code == 0
    assert {"team/a", "mine/a", "given/a"} - set(server.left) == {f"{place}/a"}
    # What a file says counts before kaiwoconfig.yaml, and -n before both.
    server.add("team", "kaiwojobs", "a")
    server.add("given", "kaiwojobs", "a")
    assert cli("delete", "-f", "-", *words, stdin=manifest("a", namespace="team").encode()).code == 0
    assert ("team/a" in server.left) is (place == "given")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (manifest("a") + manifest("nope"), 3, "job/nope not found in namespace team; nothing was deleted"),
        (
            manifest("a") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\n",
            2,
            'ConfigMap "code" (v1) is not a Kaiwo workload; delete it with kubectl delete -f -',
        ),
        (manifest("a") + manifest(""), 2, "metadata.name: is required; a generated name is not in the file"),
        (manifest("a") + "---\na: [", 2, "stdin:"),
        ("", 2, "no workload in this file"),
    ],
)
def test_a_file_that_names_something_else_deletes_nothing(
    cli: Cli, server: WorkloadServer, text: str, code: int, said: str
) -> None:
    """What is wrong is said with its line, before anything goes."""
    result = cli("delete", "-f", "-", stdin=text.encode())
    assert result.code == code
    assert said in result.err
    assert "nothing was deleted" in result.err
    assert server.left == ["team/a", "team/b", "team/c"]
    url = cli("delete", "-f", "https://example.org/a.yaml")
    assert "curl -fsSL https://example.org/a.yaml | kaiwo delete -f -" in url.err


def test_labels_choose_jobs_and_services_of_the_namespace(cli: Cli, server: WorkloadServer) -> None:
    """None at all is no error, as for kubectl; an empty selector of an unset variable deletes nothing."""
    server.add("team", "kaiwojobs", "x", team="vision")
    server.add("team", "kaiwoservices", "y", team="vision")
    server.add("other", "kaiwojobs", "z", team="vision")
    empty = cli("delete", "-l", "")
    assert empty.code == 2
    assert "-l SELECTOR" in empty.err
    result = cli("delete", "-l=team=vision", "-o", "name")
    assert result.out == "kaiwojob.kaiwo.silogen.ai/x\nkaiwoservice.kaiwo.silogen.ai/y\n"
    assert server.left == ["team/a", "team/b", "team/c", "other/z"]
    none = cli("delete", "-l", "team=vision")
    assert (none.code, none.out) == (0, "")
    assert none.err == "no workloads match team=vision in namespace team; nothing was deleted\n"


def test_the_question_names_every_namespace(
    cli: Cli, server: WorkloadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files may hold workloads of several ones, and a name may be that of somebody else's workload."""
    server.add("other", "kaiwojobs", "a")
    server.workloads["other", "kaiwojobs", "a"]["spec"] = {"user": "ada@example.org\x1b[2J", "gpus": 2}
    monkeypatch.setattr("kaiwo.cli.commands.delete.on_terminal", lambda: True)
    Path("jobs.yaml").write_text(manifest("b") + manifest("a", namespace="other") + manifest("c"))
    refused = cli("delete", "-f", "jobs.yaml", stdin=b"n\n")
    assert refused.code == 1
    assert refused.err.splitlines()[:5] == [
        "in namespace other:",
        "  job/a (new, 2 GPUs, of ada@example.org [2J)",
        "in namespace team:",
        "  job/b (new, 0 GPUs)",
        "  job/c (new, 0 GPUs)",
    ]
    assert "Delete these 3 and their data volumes?" in refused.err
    assert len(server.left) == 4


def test_what_was_deleted_is_data_on_request(cli: Cli, server: WorkloadServer) -> None:
    """Names and objects as they were, as submit writes them; -o was ignored."""
    assert cli("delete", "a", "-o", "name").out == "kaiwojob.kaiwo.silogen.ai/a\n"
    assert json.loads(cli("delete", "b", "-o", "json").out)["metadata"]["name"] == "b"
    server.kept = {"c"}
    assert cli("delete", "c", "-o", "name").out == ""


def test_the_next_command_is_about_the_namespace_that_was_meant(cli: Cli, server: WorkloadServer) -> None:
    """It names -n, or it would look in the context's namespace and find nothing."""
    server.add("other", "kaiwojobs", "x")
    server.held = {"x"}
    deleted = cli("delete", "x", "-n", "other", "--timeout", "10ms")
    assert deleted.code == 4
    assert deleted.err.endswith("still being deleted: job/x\nhint: kaiwo list -n other\n")
    sound = manifest("x").replace('"nonsense": 1', '"image": "registry.example/a:1"')
    again = cli("submit", "-f", "-", "-n", "other", stdin=sound.encode())
    assert again.code == 1
    assert "job/x is still being deleted; wait until kaiwo list -n other does not show it" in again.err
