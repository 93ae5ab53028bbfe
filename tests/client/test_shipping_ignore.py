"""Patterns of .kaiwoignore mean what they mean in .gitignore, and secrets are recognized."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaiwo.client.shipping_ignore import IgnoreRules, private_key, secret_name

PATHS = ("a", "b", "ab", "a/b", "b/a", "a/b/c", "b/ab/a.b", "a.b", "c/a/b/c", "!a", "#a", "a b", "ä", "c/-")


def git_ignores(lines: list[str]) -> set[str]:
    """Which of the paths git ignores by these lines."""
    with TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)  # noqa: S607
        Path(folder, ".gitignore").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for path in PATHS:
            # Whether a path is a folder is seen on the disk; here all are files.
            Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
        command = ["git", "-C", folder, "-c", "core.excludesFile=", "check-ignore", "-z", "--stdin"]
        answer = subprocess.run(
            [*command, "--no-index"],
            input="\0".join(f"{path}.f" for path in PATHS).encode(),
            capture_output=True,
            check=False,
        )
        return set(answer.stdout.decode().strip("\0").split("\0")) - {""}


PIECES = ("a", "b", ".f", "*", "**", "/", "?", "[ab]", "[!a]", "[a-c]", "!", "#", " ", "\\", "]", "[", "ä")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), min_size=1, max_size=3))
@example(["a/**", "!a/b.f"])
@example(["*", "!*/", "!*.f"])
@example(["**/b.f"])
@example(["a/**/c.f"])
@example(["a**/.f"])
@example(["/a**"])
@example(["***/a"])
@example(["**\\/b"])
@example(["a/b**/c.f", "[a]**/b.f"])
@example(["/a.f", "b/"])
@example(["\\#a.f", "\\!a.f"])
@example(["[]a].f", "[!]a].f"])
def test_patterns_mean_what_they_mean_to_git(lines: list[str]) -> None:
    """People write .kaiwoignore as they write .gitignore."""
    rules = IgnoreRules(lines)
    assert {f"{path}.f" for path in PATHS if rules.ignored(f"{path}.f")} == git_ignores(lines)


@pytest.mark.parametrize(
    "path",
    [
        ".env", "sub/.env.production", "id_rsa", "keys/ID_ED25519", "server.pem", "tls.key", ".netrc",
        ".npmrc", ".aws/credentials", "home/.ssh/config", "kubeconfig",
        "credentials.json", ".git-credentials",
    ],
)  # fmt: skip
def test_a_name_of_a_secret_is_recognized(path: str) -> None:
    """Whoever ships a folder seldom thinks of these."""
    assert secret_name(path)


@pytest.mark.parametrize(
    "path", ["train.py", ".env.example", "id_rsa.pub", "environment.yml", "keys.py", "tokenizer.json", "key"]
)
def test_a_harmless_name_is_shipped(path: str) -> None:
    """A file that is left out by mistake costs a run."""
    assert not secret_name(path)


def test_a_private_key_is_recognized_by_its_content() -> None:
    """Whatever its name; a public key or a text about keys is none."""
    assert private_key(b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc")
    assert private_key(b"\n-----BEGIN PRIVATE KEY-----")
    assert not private_key(b"-----BEGIN PUBLIC KEY-----")
    assert not private_key(b'KEY = """-----BEGIN PRIVATE KEY-----"""')
