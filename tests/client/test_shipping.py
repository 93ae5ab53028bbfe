"""A folder is packed as git sees it: completely, without secrets, and the same every time."""

from __future__ import annotations

import io
import os
import random
import subprocess
import tarfile
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaiwo.client.shipping import MAX_ARCHIVE_BYTES, pack
from kaiwo.client.shipping_files import ShippingError

if TYPE_CHECKING:
    from kaiwo.client.shipping import Archive


def git(folder: Path, *args: str) -> None:
    """Run git in a folder, without the developer's own settings."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=j", "-c", "user.email=j@example.org", *args],  # noqa: S607
        check=True,
        env=environment,
        capture_output=True,
    )


def write(folder: Path, **files: str) -> None:
    """Write files; two underscores stand for a slash, one for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def names(archive: Archive) -> list[str]:
    """The names in an archive, folders with a slash."""
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as tar:
        return [member.name + "/" * member.isdir() for member in tar]


def unpack(archive: Archive, folder: Path) -> Path:
    """Unpack with the system's tar, as the init container does."""
    folder.mkdir()
    subprocess.run(["tar", "-xzof", "-"], cwd=folder, input=archive.content, check=True)  # noqa: S607
    return folder


def test_git_decides_what_belongs_to_the_folder(tmp_path: Path) -> None:
    """What is tracked and what is new goes; what is ignored or deleted stays behind."""
    git(tmp_path, "init", "-q")
    write(tmp_path, train_py="1", old_py="2", _gitignore="*.log\nout/\n", forced_log="x")
    git(tmp_path, "add", "-f", "train.py", "old.py", ".gitignore", "forced.log")
    git(tmp_path, "commit", "-qm", "x")
    (tmp_path / "old.py").unlink()
    write(tmp_path, new_py="3", run_log="4", out__model_bin="5", sub__more_py="6")
    assert names(pack(tmp_path)) == [".gitignore", "forced.log", "new.py", "sub/more.py", "train.py"]
    assert names(pack(tmp_path / "sub")) == ["more.py"]


def test_without_git_everything_but_kaiwoignore_goes(tmp_path: Path) -> None:
    """The same patterns as in .gitignore."""
    write(tmp_path, train_py="1", data__big_bin="2", data__keep_txt="3", _kaiwoignore="*.bin\n")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "train.pyc").write_text("4", encoding="utf-8")
    assert names(pack(tmp_path)) == [".kaiwoignore", "data/keep.txt", "train.py"]


def test_kaiwoignore_counts_with_git_too(tmp_path: Path) -> None:
    """So that a tracked test picture need not travel with every run."""
    git(tmp_path, "init", "-q")
    write(tmp_path, train_py="1", picture_png="2", _kaiwoignore="*.png\n")
    git(tmp_path, "add", ".")
    assert names(pack(tmp_path)) == [".kaiwoignore", "train.py"]


def test_a_folder_that_an_outer_repository_ignores_is_packed_whole(tmp_path: Path) -> None:
    """A scratch folder inside a repository would else be empty."""
    git(tmp_path, "init", "-q")
    write(tmp_path, _gitignore="scratch/\n", scratch__train_py="1")
    assert names(pack(tmp_path / "scratch")) == ["train.py"]


def test_submodules_and_repositories_inside_are_packed_by_their_own_rules(tmp_path: Path) -> None:
    """Git lists them as one entry."""
    git(tmp_path, "init", "-q")
    inner = tmp_path / "lib"
    inner.mkdir()
    git(inner, "init", "-q")
    write(inner, lib_py="1", _gitignore="*.o\n", lib_o="2")
    write(tmp_path, train_py="1")
    assert names(pack(tmp_path)) == ["lib/.gitignore", "lib/lib.py", "train.py"]
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "x")
    git(tmp_path, "add", "lib")
    assert names(pack(tmp_path)) == ["lib/.gitignore", "lib/lib.py", "train.py"]


@pytest.mark.parametrize("repository", [True, False])
def test_links_modes_and_empty_folders_survive(tmp_path: Path, repository: bool) -> None:
    """A script stays executable, a link stays a link, and an output folder is there."""
    source = tmp_path / "src"
    source.mkdir()
    if repository:
        git(source, "init", "-q")
    write(source, train_py="1", run_sh="2", deep__x_py="3")
    (source / "run.sh").chmod(0o700)
    (source / "train.py").chmod(0o600)
    (source / "latest.py").symlink_to("train.py")
    (source / "folder").symlink_to("deep", target_is_directory=True)
    (source / "absolute").symlink_to(source / "deep" / "x.py")
    (source / "out" / "empty").mkdir(parents=True)
    (source / "ünï cödé\n☃").write_text("4", encoding="utf-8")
    (source / ("long" * 60)).write_text("5", encoding="utf-8")
    archive = pack(source)
    assert archive.left_out == ()
    there = unpack(archive, tmp_path / "there")
    assert os.access(there / "run.sh", os.X_OK)
    assert (there / "train.py").stat().st_mode & 0o111 == 0
    assert (there / "latest.py").readlink() == Path("train.py")
    assert (there / "folder" / "x.py").read_text() == "3"
    assert (there / "absolute").readlink() == Path("deep/x.py")
    assert (there / "absolute").read_text() == "3"
    assert (there / "out" / "empty").is_dir()
    assert (there / "ünï cödé\n☃").read_text() == "4"
    assert (there / ("long" * 60)).read_text() == "5"


def test_links_that_lead_outside_are_left_out_and_named(tmp_path: Path) -> None:
    """Neither a link to the home folder nor one through another link."""
    source = tmp_path / "src"
    source.mkdir()
    write(tmp_path, secret_txt="x")
    write(source, train_py="1")
    (source / "outside").symlink_to("../secret.txt")
    (source / "passwd").symlink_to("/etc/passwd")
    (source / "up").symlink_to("..", target_is_directory=True)
    (source / "through").symlink_to("up/secret.txt")
    (source / "beside").symlink_to(f"{source}-other/x")
    (source / "dangling").symlink_to("not-yet-there")
    archive = pack(source)
    assert names(archive) == ["dangling", "train.py"]
    why = "the link points outside the folder"
    assert archive.left_out == tuple((name, why) for name in ("beside", "outside", "passwd", "through", "up"))


def test_a_file_below_a_folder_that_became_a_link_stays_behind(tmp_path: Path) -> None:
    """Git still tracks it, and reading it would leave the folder."""
    source = tmp_path / "src"
    source.mkdir()
    git(source, "init", "-q")
    write(source, data__x_txt="tracked", train_py="1")
    git(source, "add", ".")
    write(tmp_path, elsewhere__x_txt="outside")
    (source / "data" / "x.txt").unlink()
    (source / "data").rmdir()
    (source / "data").symlink_to(tmp_path / "elsewhere")
    archive = pack(source)
    assert names(archive) == ["train.py"]
    assert [path for path, _ in archive.left_out] == ["data"]


def test_secrets_are_left_out_and_named(tmp_path: Path) -> None:
    """By name and by content, tracked or not; who wants one in says so with ! in .kaiwoignore."""
    git(tmp_path, "init", "-q")
    key = "-----BEGIN RSA PRIVATE KEY-----\nabc"
    write(tmp_path, train_py="1", _env="TOKEN=x", ca_pem="c", deploy_txt=key, _env_example="TOKEN=")
    git(tmp_path, "add", ".")
    archive = pack(tmp_path)
    assert names(archive) == [".env.example", "train.py"]
    assert dict(archive.left_out) == {
        ".env": "its name is that of a secret",
        "ca.pem": "its name is that of a secret",
        "deploy.txt": "it is a private key",
    }
    write(tmp_path, _kaiwoignore="!ca.pem\n")
    assert "ca.pem" in names(pack(tmp_path))


def test_a_pipe_is_left_out(tmp_path: Path) -> None:
    """Reading it would wait for ever."""
    write(tmp_path, train_py="1")
    os.mkfifo(tmp_path / "pipe")
    archive = pack(tmp_path)
    assert (names(archive), archive.left_out) == (
        ["train.py"],
        (("pipe", "it is neither a file nor a folder"),),
    )


def test_a_folder_that_is_too_large_shows_the_five_biggest_files(tmp_path: Path) -> None:
    """And the ways out."""
    noise = random.Random(1)
    for number in range(7):
        (tmp_path / f"part{number}").write_bytes(noise.randbytes(150_000 + number))
    with pytest.raises(ShippingError) as failed:
        pack(tmp_path)
    lines = failed.value.message.splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["part6", "part5", "part4", "part3", "part2"]
    assert "at most 900.0 KiB packed" in lines[0]
    assert "--git" in failed.value.next_step
    assert "object store" in failed.value.next_step
    (tmp_path / "part6").unlink()
    assert len(pack(tmp_path).content) <= MAX_ARCHIVE_BYTES


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    """A checkpoint of 100 GB must not fill the memory before the error comes."""
    with (tmp_path / "checkpoint").open("wb") as stream:
        stream.truncate(100 << 30)
    with pytest.raises(ShippingError, match=r"100\.0 GiB, at most 900\.0 KiB packed"):
        pack(tmp_path)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A run without it would fail much later."""
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    write(tmp_path, train_py="1")
    (tmp_path / "train.py").chmod(0)
    with pytest.raises(ShippingError, match=r"train\.py: cannot be read: Permission denied"):
        pack(tmp_path)


def test_files_that_change_while_they_are_packed_leave_a_whole_archive(tmp_path: Path) -> None:
    """A training that logs into the folder, a tool that deletes files: the archive stays readable."""
    for number in range(50):
        (tmp_path / f"f{number}").write_bytes(b"x" * 20_000)
    stop = threading.Event()

    def meddle() -> None:
        step = 0
        while not stop.is_set():
            step += 1
            path = tmp_path / f"f{step % 50}"
            if step % 7 == 0:
                path.unlink(missing_ok=True)
            else:
                with path.open("ab" if step % 2 else "wb") as stream:
                    stream.write(b"y" * (step % 5000))

    thread = threading.Thread(target=meddle)
    thread.start()
    try:
        for _ in range(20):
            archive = pack(tmp_path)
            with tarfile.open(fileobj=io.BytesIO(archive.content)) as tar:
                for member in tar:
                    stream = tar.extractfile(member)
                    assert stream is not None
                    assert len(stream.read()) == member.size
    finally:
        stop.set()
        thread.join()


LETTERS = st.characters(exclude_characters="/\0", exclude_categories=["Cs"])
NAMES = st.text(LETTERS, min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..", ".kaiwoignore") and not name.startswith(".git")
)
FILES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=200), max_size=8
)


def lay_out(root: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """Write what is possible: a name cannot be both a file and a folder."""
    written = {}
    for path, content in files.items():
        full = root / path
        try:
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(content)
        except OSError:
            continue
        written[path] = content
    return written


@settings(max_examples=40, deadline=None)
@given(FILES, st.booleans())
@example(files={".svn": b"", "a/.hg": b"", "__pycache__/b": b""}, repository=False)
@example(files={".svn": b"", "a/.hg": b"", "__pycache__/b": b""}, repository=True)
def test_any_folder_survives_the_way(files: dict[str, bytes], repository: bool) -> None:
    """Whatever names and contents: what is unpacked by tar is what was there, less what was named."""
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        root = Path(first)
        if repository:
            git(root, "init", "-q")
        written = lay_out(root, files)
        archive = pack(root)
        there = unpack(archive, Path(second) / "there")
        found = {
            path.relative_to(there).as_posix(): path.read_bytes()
            for path in there.rglob("*")
            if path.is_file()
        }
        omitted = {path for path, _ in archive.left_out}
        never = {"__pycache__", ".hg", ".svn"}
        skipped = {path for path in written if not repository and never & set(path.split("/"))}
        assert found == {path: content for path, content in written.items() if path not in omitted | skipped}
        assert pack(root).content == archive.content


def test_equal_folders_give_equal_archives(tmp_path: Path) -> None:
    """Whatever the order of creation, the times and the umask."""
    for folder, order in (("one", ("a_py", "b_py")), ("two", ("b_py", "a_py"))):
        for name in order:
            write(tmp_path / folder, **{name: "1"})
    (tmp_path / "two" / "a.py").chmod(0o664)
    os.utime(tmp_path / "two" / "a.py", (1, 1))
    assert pack(tmp_path / "one").content == pack(tmp_path / "two").content


def test_packing_500_files_is_quick(tmp_path: Path) -> None:
    """CPU time of this process, in which the whole `kaiwo run` has one second."""
    git(tmp_path, "init", "-q")
    for number in range(500):
        write(tmp_path, **{f"pkg{number % 20}__m{number}_py": f"value = {number}\n" * 40})
    git(tmp_path, "add", ".")
    began = process_time()
    assert pack(tmp_path).files == 500
    assert process_time() - began < 0.5
