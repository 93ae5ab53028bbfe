"""Cases of set L with repositories of the Hugging Face Hub."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from campaign.downloads.judging import CONFIGURATION, DISK_FULL, INTEGRITY, NETWORK, fails, struck
from campaign.downloads.program import PUBLIC
from kaiwo.testing.model_hub import COMMIT, LARGE, OID, TOKEN, serve_hub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from campaign.downloads.program import DownloadPod
    from kaiwo.testing.model_hub import ModelHub

_ITEM: Final = "huggingFace[0]"
_ITEMS: Final[dict[str, Any]] = {"huggingFace": [{"repoId": "a/b"}]}
_MODEL: Final = "models--a--b"


@dataclass(frozen=True, slots=True)
class Hub:
    """A Hub, and the pod that downloads from it.

    Attributes:
        server: has the repository ``a/b``.
        cdn: has its large file.
        pod: of the case.
    """

    server: ModelHub
    cdn: ModelHub
    pod: DownloadPod

    def heals(self) -> None:
        """Another run brings the snapshot.

        Raises:
            ViolationError: it does not.
        """
        run = self.pod.run(_ITEMS)
        struck(run.code == 0, f"another run heals, and not exit code {run.code}: {run.out[-500:]}")
        self.pod.check_contained()
        self.pod.check_secret(run)
        found = self.snapshot()
        wanted = {"model.safetensors": self.server.model, **self.server.small}
        struck(found == wanted, f"the snapshot is right: {sorted(found)}")

    def snapshot(self) -> dict[str, bytes]:
        """Files as a workload sees them."""
        root = self.pod.hub / "hub" / _MODEL / "snapshots" / COMMIT
        return {
            path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
        }

    def fails(self, code: int | tuple[int, ...], *words: str) -> None:
        """A run fails as it ought to, and the large file is not in the snapshot."""
        fails(self.pod, _ITEMS, code, _ITEM, *words, left=None)
        struck("model.safetensors" not in self.snapshot(), "nothing under a final name")


@contextlib.contextmanager
def serving(pod: DownloadPod) -> Iterator[Hub]:
    """A Hub with one repository."""
    with serve_hub() as cdn, serve_hub() as server:
        server.redirect = f"http://127.0.0.1:{cdn.server_address[1]}/cdn/{OID}"
        pod.environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}", "HF_TOKEN": TOKEN}
        yield Hub(server, cdn, pod)


def _redirect(hub: Hub, place: str, word: str) -> None:
    right, hub.server.redirect = hub.server.redirect, place
    hub.fails(CONFIGURATION, word)
    struck(hub.server.requests, "the redirect")
    hub.server.redirect = right
    hub.heals()


def redirect_to_metadata(hub: Hub) -> None:
    """A redirect to the metadata server of a cloud."""
    _redirect(hub, "http://169.254.169.254/latest/meta-data/", "169.254.169.254")


def redirect_to_loopback(hub: Hub) -> None:
    """A redirect to loopback over IPv6."""
    _redirect(hub, f"http://[::1]:{hub.cdn.server_address[1]}/cdn/{OID}", "::1")


def rebinding(hub: Hub) -> None:
    """A name that resolves to a public address first, and to loopback from then on."""
    hub.pod.environment["HF_ENDPOINT"] = f"http://hub.example.com:{hub.server.server_address[1]}"
    hub.server.redirect = hub.server.redirect.replace("127.0.0.1", "hub.example.com")
    hub.server.closing = True
    hub.pod.resolve("hub.example.com", PUBLIC, "127.0.0.1")
    hub.fails(CONFIGURATION, "hub.example.com", "loopback")
    struck(hub.pod.answers()[:2] == [PUBLIC, "127.0.0.1"], "the second answer")
    hub.pod.resolve("hub.example.com", PUBLIC)
    hub.heals()


def truncation(hub: Hub) -> None:
    """A large file that ends before its length."""
    hub.cdn.cut = len(LARGE) // 2
    hub.fails((INTEGRITY, NETWORK), "a/b")
    struck(hub.cdn.sent, "the truncation")
    hub.cdn.cut = 0
    hub.heals()


def checksum(hub: Hub) -> None:
    """A large file that is not the one that the Hub names."""
    hub.cdn.large = bytes(len(LARGE))
    hub.fails(INTEGRITY, "model.safetensors")
    hub.cdn.large = LARGE
    hub.heals()


def disk_full(hub: Hub) -> None:
    """A volume without room for the repository."""
    with hub.pod.small_volume(200_000, hub.pod.hub):
        hub.fails(DISK_FULL, "storageSize")
    with hub.pod.small_volume(4 << 20, hub.pod.hub):
        hub.heals()


def killed(hub: Hub) -> None:
    """Killed in the middle of the large file; the next run goes on where it was."""
    hub.server.model = hub.cdn.large = random.Random(4).randbytes(20 << 20)  # noqa: S311  content
    hub.cdn.pause = 0.01
    run = hub.pod.run(_ITEMS, kill_when=lambda: hub.cdn.sent > len(hub.cdn.large) // 2)
    struck(run.code < 0, f"killed, and not exit code {run.code}")
    struck("model.safetensors" not in hub.snapshot(), "nothing under a final name")
    hub.cdn.pause = 0.0
    before = hub.cdn.sent
    hub.heals()
    struck(hub.cdn.sent - before < len(hub.cdn.large), "the second run resumes")


def empty(hub: Hub) -> None:
    """A file without content."""
    hub.server.small["__init__.py"] = b""
    hub.heals()


def name_that_climbs(hub: Hub) -> None:
    """The Hub lists a file whose name has ``..``."""
    hub.server.small["../../../../../outside/x"] = b"escaped"
    hub.fails((CONFIGURATION, INTEGRITY), "..")
    del hub.server.small["../../../../../outside/x"]
    hub.heals()


def link_out(hub: Hub) -> None:
    """The folder of the cache is a link out of the volume."""
    (hub.pod.hub / "hub").symlink_to(hub.pod.outside)
    hub.fails(CONFIGURATION, "link")
    (hub.pod.hub / "hub").unlink()
    hub.heals()


CASES: Final[dict[str, Callable[[Hub], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        redirect_to_metadata, redirect_to_loopback, rebinding, truncation, checksum, disk_full, killed, empty,
        name_that_climbs, link_out,
    )
}  # fmt: skip
"""By name: what happens."""
