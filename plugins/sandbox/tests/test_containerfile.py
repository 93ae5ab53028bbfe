"""Recipes of images: how they are read, what the context leaves out, and how steps become layers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.real_node.images import build, containerfile
from kaiwo_sandbox.real_node.images.layers import Copy, Directory, Text

if TYPE_CHECKING:
    from pathlib import Path

RECIPE = """\
# A comment.
ARG BASE=plain:1

FROM ${BASE} AS build
RUN first \\
 # a comment between
 && second

FROM ${BASE}
ARG REVISION=
COPY --from=build /made /made
ENV PATH="/made/bin:${PATH}" GREETING="hello world"
LABEL revision="$REVISION"
USER 1000:1000
WORKDIR /made
ENTRYPOINT ["run"]
CMD ["--now", "a b"]
"""


def test_a_recipe_has_stages_with_steps() -> None:
    """Comments go, continued lines are one step, and each step knows its line."""
    recipe = containerfile.parse(RECIPE, file="Containerfile")
    assert recipe.arguments == {"BASE": "plain:1"}
    first, last = recipe.stages
    assert (first.base, first.name, last.name) == ("${BASE}", "build", "")
    (step,) = first.steps
    assert (step.line, step.name, step.text.split()) == (5, "RUN", ["first", "&&", "second"])
    assert [step.name for step in last.steps][:3] == ["ARG", "COPY", "ENV"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM a\nADD b c", r"file:2: ADD b c: expected one of ARG"),
        ("RUN a", r"file:1: RUN a: expected FROM before it"),
        ("FROM a AS b c", r"file:1: FROM a AS b c: expected FROM IMAGE \[AS NAME\]"),
        ("# nothing", r"file has no FROM"),
    ],
)
def test_what_the_builder_does_not_know_is_refused(text: str, message: str) -> None:
    """A step that it left out would make another image than the recipe."""
    with pytest.raises(SandboxError, match=message):
        containerfile.parse(text, file="file")


def test_an_image_is_started_as_the_last_stage_says(tmp_path: Path) -> None:
    """Environment with variables of the base, labels, user, directory and command."""
    recipe = tmp_path / "Containerfile"
    recipe.write_text(RECIPE)
    image = build.image_with([{}], "made:1", recipe)
    assert image.environment["PATH"].startswith("/made/bin:/usr/local/sbin:")
    assert image.environment["GREETING"] == "hello world"
    assert image.labels == {"revision": ""}
    assert (image.user, image.directory) == ("1000:1000", "/made")
    assert (image.entrypoint, image.arguments) == (("run",), ("--now", "a b"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("kaiwo/api/job.py", False),
        ("kaiwo", False),
        (".git/config", True),
        ("bench/x.py", True),
        ("kaiwo/__pycache__/x.pyc", True),
        ("plugins/kueue/tests/test_x.py", True),
        ("plugins/kueue/tests", True),
        ("plugins/kueue/kaiwo_kueue/testsuite.py", False),
    ],
)
def test_the_context_leaves_out_what_the_last_matching_line_says(path: str, *, expected: bool) -> None:
    """As container engines read ``.dockerignore``."""
    lines = ["# comment", "", "*", "!kaiwo", "!plugins", "**/__pycache__", "**/tests"]
    assert containerfile.ignored(path, lines) is expected


def test_a_layer_has_what_a_step_changed_and_removed(tmp_path: Path) -> None:
    """Changed and new files, directories with their modes, and a mark for what is gone, but not below it."""
    for name in ("kept", "changed", "gone", "folder/inner"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")
    before = build._snapshot(tmp_path)
    (tmp_path / "changed").write_text("after!")
    (tmp_path / "gone").unlink()
    (tmp_path / "folder" / "inner").unlink()
    (tmp_path / "folder").rmdir()
    (tmp_path / "new").mkdir(mode=0o700)
    (tmp_path / "new" / "link").symlink_to("../kept")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "1").write_text("of the machine")
    tree = build._changes(tmp_path, before, build._snapshot(tmp_path))
    assert tree == {
        "changed": Copy(tmp_path / "changed"),
        ".wh.gone": Text(b""),
        ".wh.folder": Text(b""),
        "new": Directory(0o700),
        "new/link": Copy(tmp_path / "new" / "link"),
        "proc": Directory(0o755),
    }


def test_a_file_with_the_old_size_and_time_is_seen_as_changed(tmp_path: Path) -> None:
    """Installers set times, so the time of the last change of the file itself counts."""
    file = tmp_path / "file"
    file.write_text("before")
    before, times = build._snapshot(tmp_path), (1, 1)
    file.write_text("after!")
    os.utime(file, times)
    assert set(build._changes(tmp_path, before, build._snapshot(tmp_path))) == {"file"}
