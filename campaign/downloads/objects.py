"""Cases of set L with objects of S3, Google Cloud Storage and Azure Blob Storage."""

from __future__ import annotations

import contextlib
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from campaign.downloads.judging import CONFIGURATION, DISK_FULL, INTEGRITY, NETWORK, fails, struck, succeeds
from campaign.downloads.program import CANARY, PUBLIC, TARGET
from kaiwo.testing.object_server import ACCOUNT, serve_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from campaign.downloads.program import DownloadPod
    from kaiwo.testing.object_server import ObjectHandler, Objects

STORES: Final = ("s3", "gcs", "azureBlob")
MANY: Final = 10_000
"""Objects of the case with very many."""

MANY_SECONDS: Final = 600.0
"""That this case may take."""

_BODY: Final = random.Random(1).randbytes(300_000)  # noqa: S311  content
_ONE: Final = [{"path": "a", "targetPath": f"{TARGET}/a"}]
_FOLDER: Final = [{"path": "d", "targetPath": TARGET}]
_KEY: Final = f"{CANARY}KEY{CANARY}KEYAB"  # also base64


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, and the pod that downloads from it.

    Attributes:
        kind: the field of its source.
        objects: the server.
        pod: of the case.
    """

    kind: str
    objects: Objects
    pod: DownloadPod

    @property
    def item(self) -> str:
        """What errors about it begin with."""
        return f"{self.kind}[0]"

    def items(
        self, *, files: list[Any] | None = None, folders: list[Any] | None = None, host: str = ""
    ) -> dict[str, Any]:
        """Items with one bucket.

        Args:
            files: of it.
            folders: of it.
            host: name of the server, in place of its address.
        """
        url = f"http://{host}:{self.objects.port}" if host else self.objects.url
        wanted = {"files": files, "folders": folders}
        bucket = {"name": "bucket", **{name: value for name, value in wanted.items() if value}}
        secret = self.pod.secret
        if self.kind == "s3":
            keys = {"accessKeyId": secret("id", _KEY), "secretKey": secret("key", _KEY)}
            return {"s3": [{"endpointUrl": url, "buckets": [bucket], **keys}]}
        if self.kind == "gcs":
            self.pod.environment["STORAGE_EMULATOR_HOST"] = url
            return {"gcs": [{"applicationCredentials": secret("gcs", _account()), "buckets": [bucket]}]}
        text = (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_KEY};"
            f"BlobEndpoint={url}/{ACCOUNT};"
        )
        return {"azureBlob": [{"connectionString": secret("azure", text), "containers": [bucket]}]}


def _account() -> str:
    """The key of a service account."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return json.dumps(
        {
            "type": "service_account",
            "client_email": f"{CANARY}@project.iam.gserviceaccount.com",
            "private_key": key.decode(),
            "private_key_id": CANARY,
        }
    )


@contextlib.contextmanager
def serving(kind: str, pod: DownloadPod) -> Iterator[Bucket]:
    """A bucket of a store."""
    with serve_objects() as objects:
        objects.goog, objects.azure = kind == "gcs", kind == "azureBlob"
        yield Bucket(kind, objects, pod)


def key_that_climbs(bucket: Bucket) -> None:
    """A key with ``..`` in a listing."""
    bucket.objects.content = {"d/../../outside/x": _BODY, "d/b": _BODY}
    fails(bucket.pod, bucket.items(folders=_FOLDER), CONFIGURATION, bucket.item, "..")
    del bucket.objects.content["d/../../outside/x"]
    succeeds(bucket.pod, bucket.items(folders=_FOLDER), {f"volume/{TARGET}/b": _BODY})


def absolute_key(bucket: Bucket) -> None:
    """A key in a listing that goes on with an absolute path."""
    key = f"d/{bucket.pod.outside}/x"
    bucket.objects.content = {key: _BODY, "d/b": _BODY}
    fails(bucket.pod, bucket.items(folders=_FOLDER), CONFIGURATION, bucket.item, "key")
    del bucket.objects.content[key]
    succeeds(bucket.pod, bucket.items(folders=_FOLDER), {f"volume/{TARGET}/b": _BODY})


def _wrong_target(bucket: Bucket, target: str) -> None:
    bucket.objects.content["a"] = _BODY
    wrong = [{"path": "a", "targetPath": target}]
    fails(bucket.pod, bucket.items(files=wrong), CONFIGURATION, bucket.kind, "targetPath")
    struck(not bucket.objects.requests, "refused before the first request")
    succeeds(bucket.pod, bucket.items(files=_ONE), {f"volume/{TARGET}/a": _BODY})


def target_that_climbs(bucket: Bucket) -> None:
    """A target path with ``..``."""
    _wrong_target(bucket, f"{TARGET}/../../outside/x")


def absolute_target(bucket: Bucket) -> None:
    """A target path outside of the volume."""
    _wrong_target(bucket, str(bucket.pod.outside / "x"))


def link_out(bucket: Bucket) -> None:
    """The target folder is a link out of the volume."""
    bucket.objects.content["a"] = _BODY
    link = bucket.pod.volume / TARGET
    link.symlink_to(bucket.pod.outside)
    fails(
        bucket.pod, bucket.items(files=_ONE), CONFIGURATION, bucket.item, "link",
        left=[f"volume/{TARGET}/keep"],
    )  # fmt: skip
    link.unlink()
    succeeds(bucket.pod, bucket.items(files=_ONE), {f"volume/{TARGET}/a": _BODY})


def file_link_out(bucket: Bucket) -> None:
    """A link out of the volume has the name of a file; it is replaced and not written through."""
    bucket.objects.content["a"] = _BODY
    file = bucket.pod.volume / TARGET / "a"
    file.parent.mkdir()
    file.symlink_to(bucket.pod.outside / "keep")
    succeeds(bucket.pod, bucket.items(files=_ONE), {f"volume/{TARGET}/a": _BODY})
    struck(not file.is_symlink(), "the link was replaced")


def partial_link_out(bucket: Bucket) -> None:
    """A link out of the volume has the name of a file that is not whole yet."""
    bucket.objects.content["a"] = _BODY
    link = bucket.pod.volume / TARGET / "a.part"
    link.parent.mkdir()
    link.symlink_to(bucket.pod.outside / "keep")
    fails(
        bucket.pod, bucket.items(files=_ONE), CONFIGURATION, bucket.item, str(link), "symbolic link", "remove"
    )
    link.unlink()
    succeeds(bucket.pod, bucket.items(files=_ONE), {f"volume/{TARGET}/a": _BODY})


def link_in(bucket: Bucket) -> None:
    """The target folder is a link within the volume, which is followed."""
    bucket.objects.content["a"] = _BODY
    (bucket.pod.volume / "real").mkdir()
    (bucket.pod.volume / TARGET).symlink_to("real")
    succeeds(bucket.pod, bucket.items(files=_ONE), {"volume/real/a": _BODY})


def _redirect(bucket: Bucket, place: str, word: str) -> None:
    bucket.objects.content["a"] = _BODY

    def elsewhere(handler: ObjectHandler) -> bool:
        handler.reply(302, Location=place)
        return True

    bucket.objects.faults["a"] = elsewhere
    fails(bucket.pod, bucket.items(files=_ONE), CONFIGURATION, bucket.item, "blocked", word)
    struck(bucket.objects.reached, "the redirect")
    bucket.objects.faults.clear()
    succeeds(bucket.pod, bucket.items(files=_ONE), {f"volume/{TARGET}/a": _BODY})


def redirect_to_metadata(bucket: Bucket) -> None:
    """A redirect to the metadata server of a cloud."""
    _redirect(bucket, "http://169.254.169.254/latest/meta-data/", "169.254.169.254")


def redirect_to_loopback(bucket: Bucket) -> None:
    """A redirect to loopback over IPv6."""
    _redirect(bucket, f"http://[::1]:{bucket.objects.port}/bucket/a", "::1")


def rebinding(bucket: Bucket) -> None:
    """A name that resolves to a public address first, and to loopback from then on."""
    bucket.objects.content["a"] = _BODY
    bucket.pod.resolve("models.example.com", PUBLIC, "127.0.0.1")

    def once(handler: ObjectHandler) -> bool:
        handler.close_connection = True
        handler.serve("a")
        return True

    bucket.objects.faults["a"] = once
    items = bucket.items(files=_ONE, host="models.example.com")
    fails(bucket.pod, items, CONFIGURATION, bucket.item, "loopback", "models.example.com")
    struck(bucket.pod.answers()[:2] == [PUBLIC, "127.0.0.1"], "the second answer")
    struck(len(bucket.objects.requests) == bucket.pod.answers().count(PUBLIC), "no request after it")
    bucket.pod.resolve("models.example.com", PUBLIC)
    succeeds(bucket.pod, items, {f"volume/{TARGET}/a": _BODY})


def truncation(bucket: Bucket) -> None:
    """An answer that ends before its length."""
    bucket.objects.content["a"] = _BODY
    cut = []

    def end(handler: ObjectHandler) -> bool:
        if handler.command != "GET":
            return False
        cut.append(handler)
        size = (
            len(_BODY) if not (handler.headers.get("Range") or handler.headers.get("x-ms-range")) else 65536
        )
        handler.send_response(200 if size == len(_BODY) else 206)
        handler.send_header("Content-Range", f"bytes 0-{size - 1}/{len(_BODY)}")
        handler.send_header("Content-Length", str(size))
        handler.send_header("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")
        handler.send_header("ETag", bucket.objects.etag("a"))
        handler.end_headers()
        handler.wfile.write(_BODY[:100])
        handler.close_connection = True
        return True

    bucket.objects.faults["a"] = end
    fails(bucket.pod, bucket.items(files=_ONE), NETWORK, bucket.item, "/a")
    struck(cut, "the truncation")
    bucket.objects.faults.clear()
    succeeds(bucket.pod, bucket.items(files=_ONE), {f"volume/{TARGET}/a": _BODY})


def checksum(bucket: Bucket) -> None:
    """Content that is not what the checksum of the store says."""
    bucket.objects.content["a"] = _BODY
    bucket.objects.etags["a"] = f'"{"0" * 32}"' if bucket.kind == "s3" else '"generation-1"'
    wrong = "AAAAAAAAAAAAAAAAAAAAAA=="
    bucket.objects.other_headers["a"] = {
        "s3": {},
        "gcs": {"x-goog-hash": f"md5={wrong}"},
        "azureBlob": {"x-ms-blob-type": "BlockBlob", "Content-MD5": wrong, "x-ms-blob-content-md5": wrong},
    }[bucket.kind]
    fails(bucket.pod, bucket.items(files=_ONE), INTEGRITY, bucket.item, "expected", "/a")
    bucket.objects.other_headers.clear()
    bucket.objects.etags.clear()
    succeeds(bucket.pod, bucket.items(files=_ONE), {f"volume/{TARGET}/a": _BODY})


def disk_full(bucket: Bucket) -> None:
    """Others fill the volume while the second of two files is under way."""
    files = [{"path": name, "targetPath": f"{TARGET}/{name}"} for name in ("a", "b")]
    bucket.objects.content = {"a": _BODY, "b": _BODY}
    bucket.pod.limits["workers"] = 1
    with bucket.pod.small_volume(1 << 20):
        others = bucket.pod.volume / "others"

        def fill(handler: ObjectHandler) -> bool:
            if handler.command == "GET":
                with contextlib.suppress(OSError), others.open("ab", buffering=0) as file:
                    while file.write(bytes(4096)):
                        pass
            return False

        bucket.objects.faults["a"] = fill
        fails(
            bucket.pod, bucket.items(files=files), DISK_FULL, bucket.item, "increase storageSize",
            left=[f"volume/{TARGET}/a"],
        )  # fmt: skip
        struck(bucket.objects.reached and others.exists(), "the volume was filled")
        bucket.objects.faults.clear()
        others.unlink()
        succeeds(
            bucket.pod, bucket.items(files=files), {f"volume/{TARGET}/{name}": _BODY for name in ("a", "b")}
        )


def killed(bucket: Bucket) -> None:
    """Killed in the middle of a file; the next run goes on where it was."""
    body = random.Random(2).randbytes(4 << 20)  # noqa: S311  content
    bucket.objects.content["a"] = body
    bucket.objects.delay = 0.05
    items = bucket.items(files=_ONE)
    run = bucket.pod.run(items, kill_when=lambda: bucket.objects.sent > len(body) // 2)
    struck(run.code < 0, f"killed, and not exit code {run.code}")
    struck(not bucket.pod.files(), "nothing under a final name")
    bucket.pod.check_contained()
    bucket.objects.delay = 0.0
    before = bucket.objects.sent
    succeeds(bucket.pod, items, {f"volume/{TARGET}/a": body})
    struck(bucket.objects.sent - before < len(body) * 3 // 4, "the second run resumes")


def empty(bucket: Bucket) -> None:
    """Objects without content are files without content."""
    bucket.objects.content = {"d/b": b"", "d/c/e": b"", "d/f": _BODY}
    wanted = {f"volume/{TARGET}/{name}": body for name, body in (("b", b""), ("c/e", b""), ("f", _BODY))}
    succeeds(bucket.pod, bucket.items(folders=_FOLDER), wanted)
    again = succeeds(bucket.pod, bucket.items(folders=_FOLDER), wanted)
    struck(again.termination.get("bytesTransferred") == 0, "nothing comes a second time")


def many(bucket: Bucket) -> None:
    """Very many small objects, each once, and none of them again."""
    bucket.pod.seconds = MANY_SECONDS / 2
    bucket.objects.content = {f"d/{number % 100}/{number}": b"%d" % number for number in range(MANY)}
    wanted = {
        f"volume/{TARGET}/{key.removeprefix('d/')}": body for key, body in bucket.objects.content.items()
    }
    succeeds(bucket.pod, bucket.items(folders=_FOLDER), wanted)
    again = succeeds(bucket.pod, bucket.items(folders=_FOLDER), wanted)
    struck(again.termination.get("bytesTransferred") == 0, "nothing comes a second time")


CASES: Final[dict[str, Callable[[Bucket], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        key_that_climbs, absolute_key, target_that_climbs, absolute_target, link_out, file_link_out,
        partial_link_out, link_in, redirect_to_metadata, redirect_to_loopback, rebinding, truncation,
        checksum, disk_full, killed, empty,
    )
}  # fmt: skip
"""By name: what happens."""
