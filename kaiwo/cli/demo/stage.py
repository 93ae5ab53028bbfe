"""What the demo plays on: a control plane, Kaiwo's CRDs and a running operator, each by Kaiwo's own command.

The control plane comes from whichever plugin adds the command ``kaiwo sandbox``; nothing of it is imported.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaiwo.cli import kit
from kaiwo.cli.demo import remains, stores
from kaiwo.cli.demo.script import NAMESPACE, NODES
from kaiwo.cli.demo.stores import Stores
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, SECRET, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from subprocess import CompletedProcess

    from kaiwo.cli.demo.script import Script

SANDBOX = "demo"
QUEUE_CONFIG = Resource(
    "kaiwo.silogen.ai", "v1alpha1", "KaiwoQueueConfig", "kaiwoqueueconfigs", namespaced=False
)

_LOCAL_NODE = (sys.executable, "-m", "kaiwo.testing.local_node", "--namespace", NAMESPACE)
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 60.0


def kaiwo(*arguments: str) -> list[str]:
    """The command line of another ``kaiwo``, run by this interpreter."""
    return [sys.executable, "-c", "from kaiwo.cli.main import main; main()", *arguments]


class Stage:
    """Everything the demo starts. `clear` removes it all, however far the demo came.

    Args:
        script: what is to be played.

    Attributes:
        kubeconfig: the control plane's, once it is up.
        directory: the demo's own files: logs, and the record of a kept operator.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.directory = remains.directory()
        self.kubeconfig = Path()
        self.operator_log = self.directory / "operator.log"
        self._operator: subprocess.Popen[bytes] | None = None
        self._control_plane = False
        self._stores: Stores | None = None
        self._node: subprocess.Popen[bytes] | None = None

    @property
    def standing(self) -> bool:
        """Whether something runs that `clear` would end."""
        return self._control_plane or self._operator is not None

    def _environment(self) -> dict[str, str]:
        """The demo's own cluster, settings and plugins, whatever the user's are."""
        return {
            **_inherited(),
            "KAIWO_PLUGINS": ",".join(self._script.plugins),
            "KAIWOCONFIG": str(self.directory / "kaiwoconfig.yaml"),
            "KUBECONFIG": str(self.kubeconfig),
        }

    def control_plane(self, say: Callable[[str], None]) -> None:
        """Bring it up.

        Args:
            say: receives what the sandbox says, above all about a long build of its programs.

        Raises:
            Failure: it cannot be brought up, or one of that name is up already.
        """
        inherited = _inherited()
        asked = self._ask(("sandbox", "env", "--name", SANDBOX), inherited)
        if asked.returncode == kit.OK:
            raise kit.Failure(
                f"a sandbox of the name {SANDBOX!r} is up already",
                "`kaiwo demo --stop` removes what an earlier demo left; then: kaiwo demo",
            )
        if asked.returncode == kit.USAGE:
            packages = (f"kaiwo-{name.replace('_', '-')}" for name in ("sandbox", *self._script.plugins))
            raise kit.Failure(
                "the demo needs a control plane, and no installed plugin adds the command `kaiwo sandbox`",
                f"pip install {' '.join(packages)}; then: kaiwo demo",
            )
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.directory / "kaiwoconfig.yaml").write_text("")
        self._control_plane = True
        addons = ("--with", ",".join(self._script.addons)) if self._script.addons else ()
        command = ("sandbox", "up", "--name", SANDBOX, "--nodes", str(NODES), *addons)
        answer = self._run(command, environment=inherited, say=say)
        _, found, path = answer.strip().partition("export KUBECONFIG=")
        if not found:
            raise kit.Failure(
                f"`kaiwo {' '.join(command)}` printed no kubeconfig but {answer[:200]!r}",
                "kaiwo plugins; the plugin that adds `sandbox` may be of another version",
            )
        self.kubeconfig = Path(shlex.split(path)[0])

    def crds(self) -> None:
        """Install Kaiwo's CRDs and wait until they are served."""
        import yaml

        printed = self._run(("manifests", "crds"))
        documents: list[dict[str, Any]] = [each for each in yaml.safe_load_all(printed) if each]
        kinds = []
        with self.cluster() as cluster:
            for crd in documents:
                cluster.apply(CUSTOM_RESOURCE_DEFINITION, crd)
                spec, names = crd["spec"], crd["spec"]["names"]
                version = spec["versions"][0]["name"]
                namespaced = spec["scope"] == "Namespaced"
                kinds.append(Resource(spec["group"], version, names["kind"], names["plural"], namespaced))
            deadline = time.monotonic() + _READY_SECONDS
            while not cluster.served(*kinds) >= set(kinds):
                if time.monotonic() > deadline:
                    raise kit.Failure(
                        f"the API server does not serve Kaiwo's CRDs after {_READY_SECONDS:.0f} s"
                    )
                time.sleep(_POLL_SECONDS)

    def operator(self) -> None:
        """Start the operator and wait until it is ready.

        Raises:
            Failure: it ended or did not get ready; the end of its log is in the text.
        """
        address = f"127.0.0.1:{_free_port()}"
        command = kaiwo("operator", "run", "--metrics-address", address)
        with self.operator_log.open("wb") as log:
            self._operator = subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the demo, which ends the operator in its turn.
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not _ready(f"http://{address}/readyz"):
            if self._operator.poll() is not None or time.monotonic() > deadline:
                tail = self.operator_log.read_text(errors="replace")[-1500:]
                raise kit.Failure(f"the operator did not get ready; the end of its log:\n{tail}")
            time.sleep(_POLL_SECONDS)

    def describe_queues(self, file: Path) -> None:
        """Install a KaiwoQueueConfig; done before the operator starts, which else makes one of its own."""
        import yaml

        with self.cluster() as cluster:
            cluster.apply(QUEUE_CONFIG, yaml.safe_load(file.read_text(encoding="utf-8")))

    def queues(self) -> None:
        """Wait until the operator has made the queues.

        Raises:
            Failure: they are not made in time; the operator's own words are in the text.
        """
        with self.cluster() as cluster:
            deadline = time.monotonic() + _READY_SECONDS
            while True:
                status = cluster.get(QUEUE_CONFIG, None, "kaiwo").get("status") or {}
                if status.get("status") == "READY":
                    return
                if time.monotonic() > deadline:
                    said = [c["message"] for c in status.get("conditions", ()) if c["status"] != "True"]
                    raise kit.Failure(
                        f"the KaiwoQueueConfig is {status.get('status') or 'not looked at'} "
                        f"after {_READY_SECONDS:.0f} s: {'; '.join(said) or 'no reason is given'}"
                    )
                time.sleep(_POLL_SECONDS)

    def submit(
        self,
        *directories: Path,
        say: Callable[[str], None] = lambda _line: None,
        sets: Sequence[str] = (),
    ) -> None:
        """Submit files of the story; `say` receives what the command says of each; `sets` changes fields."""
        files = (word for directory in directories for word in ("-f", str(directory)))
        changes = (word for change in sets for word in ("--set", change))
        self._run(("submit", "-n", NAMESPACE, *files, *changes), say=say)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where what workloads download is served, as ``kaiwo submit --set`` takes it."""
        return self._stores.addresses if self._stores is not None else ()

    def serve(self) -> None:
        """Serve what workloads download, and stand in for the kubelet of their download pods."""
        self._stores = Stores(self.directory)
        self._stores.start()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": stores.SECRET, "namespace": NAMESPACE},
            "stringData": {"id": stores.USER, "key": stores.KEY},
        }
        with self.cluster() as cluster:
            cluster.apply(SECRET, secret)
        with (self.directory / "downloads.log").open("wb") as log:
            self._node = subprocess.Popen(
                (*_LOCAL_NODE, "--kubeconfig", self.kubeconfig, "--directory", self.directory / "pods"),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _end_downloads(self) -> None:
        if self._node is not None:
            self._node.terminate()
            self._node.wait(_PATIENCE_SECONDS)
            self._node = None
        if self._stores is not None:
            self._stores.close()
            self._stores = None

    def cluster(self) -> AbstractContextManager[kit.Cluster]:
        """A connection to the control plane, as `kit.cluster` gives."""
        settings = kit.settings()
        settings.kubeconfig, settings.context = str(self.kubeconfig), None
        return kit.cluster()

    def keep(self) -> None:
        """Leave it all running; `remains.stop` can end it later."""
        self._end_downloads()
        if self._operator is not None:
            remains.record(self._operator.pid)
        self._operator = None
        self._control_plane = False

    def clear(self) -> None:
        """End what was started and remove its files. Ctrl-C cannot interrupt it."""
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._end_downloads()
            if self._operator is not None:
                self._operator.terminate()
                try:
                    self._operator.wait(_PATIENCE_SECONDS)
                except subprocess.TimeoutExpired:
                    self._operator.kill()
                    self._operator.wait()
            if self._control_plane:
                down()
            self._operator, self._control_plane = None, False
            shutil.rmtree(self.directory, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, previous)

    def _ask(self, arguments: Sequence[str], environment: Mapping[str, str]) -> CompletedProcess[str]:
        """Another short ``kaiwo`` command, whatever comes of it."""
        command = kaiwo(*arguments)
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def _run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        say: Callable[[str], None] = lambda _line: None,
    ) -> str:
        """What another ``kaiwo`` prints.

        Args:
            arguments: of the command line.
            environment: the demo's own by default.
            say: receives each line of its standard error as it comes.

        Raises:
            Failure: it failed; its standard error is in the text.
        """
        heard: list[str] = []

        def listen(talk: Iterable[str]) -> None:
            for line in talk:
                heard.append(line.rstrip())
                say(heard[-1])

        process = subprocess.Popen(
            kaiwo(*arguments),
            env=self._environment() if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("a pipe was asked for and not given")
        listener = threading.Thread(target=listen, args=(process.stderr,), daemon=True)
        listener.start()
        try:
            printed = process.stdout.read()
            process.wait()
        except BaseException:
            # Ctrl-C in a terminal has reached it too; SIGTERM to the demo has not.
            process.terminate()
            process.wait()
            raise
        finally:
            listener.join(_PATIENCE_SECONDS)
            process.stdout.close()
            process.stderr.close()
        if process.returncode:
            reasons = "\n".join(heard[-20:])
            raise kit.Failure(
                f"`kaiwo {' '.join(arguments)}` ended with exit code {process.returncode}:\n{reasons}"
            )
        return printed


def down() -> None:
    """Take the demo's control plane down; nothing happens if there is none.

    Raises:
        Failure: it may still run.
    """
    command = kaiwo("sandbox", "down", "--name", SANDBOX)
    ended = subprocess.run(
        command, env=_inherited(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise kit.Failure(
            f"the demo's control plane could not be taken down:\n{ended.stderr.strip()}",
            f"kaiwo sandbox down --name {SANDBOX}",
        )


def _inherited() -> dict[str, str]:
    """The user's environment without what steers Kaiwo: a selection of plugins may leave out the sandbox."""
    kept = "KAIWO_SANDBOX_"
    return {
        key: value
        for key, value in os.environ.items()
        if key.startswith(kept) or not key.startswith(("KAIWO", "KUBECONFIG"))
    }


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  an address of our own making
            return bool(answer.status == 200)  # noqa: PLR2004  OK
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
