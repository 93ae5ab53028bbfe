import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.workload.errors import SpecError
from kaiwo.workload.pods.entrypoint import command, finished_script


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python train.py", ["/bin/sh", "-c", "python train.py"]),
        ("  \n echo hi \n", ["/bin/sh", "-c", "echo hi"]),
        ("a\nb \\\n c", ["/bin/sh", "-c", "a\nb \\\n c"]),
        ("#!/bin/bash\nset -e\necho hi", ["/bin/bash", "-c", "set -e\necho hi"]),
        ("#!/bin/bash -eux\necho hi", ["/bin/bash", "-eux", "-c", "echo hi"]),
        ("#! /bin/sh\necho hi", ["/bin/sh", "-c", "echo hi"]),
        ("#!/usr/bin/env bash\necho hi", ["/usr/bin/env", "bash", "-c", "echo hi"]),
        ("#!/usr/bin/env python3\nprint(1)", ["/usr/bin/env", "python3", "-c", "print(1)"]),
        ("#!/usr/bin/env -S python3 -u\nprint(1)", ["/usr/bin/env", "python3", "-u", "-c", "print(1)"]),
        ("#!/usr/bin/python3.11\nprint(1)", ["/usr/bin/python3.11", "-c", "print(1)"]),
        ("#!/usr/bin/perl\nprint 1", ["/usr/bin/perl", "-e", "print 1"]),
        ("#!/usr/bin/ruby\nputs 1", ["/usr/bin/ruby", "-e", "puts 1"]),
        ("#!/usr/bin/env node\nlog(1)", ["/usr/bin/env", "node", "-e", "log(1)"]),
        ("#!/bin/bash\r\necho hi", ["/bin/bash", "-c", "echo hi"]),
    ],
)
def test_a_script_becomes_a_command(text: str, words: list[str]) -> None:
    """The first line chooses the interpreter; the rest reaches it untouched."""
    assert command(text) == words


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("python a.py \\\n  --x \\\n", "python a.py \\\n  --x "),
        ("python a.py \\\r\n", "python a.py "),
        ("python a.py \\\n\\\n  \n", "python a.py "),
        ("echo a\\\\\n", "echo a\\\\\n"),
        ("echo a\\", "echo a\\"),
        ("echo 'a\\\nb'\n", "echo 'a\\\nb'\n"),
    ],
)
def test_a_backslash_that_joins_nothing_is_no_argument(text: str, wanted: str) -> None:
    """The line end behind it is trimmed; a shell would pass the backslash to the program."""
    assert finished_script(text) == wanted


def test_a_script_of_line_ends_is_finished_in_one_pass() -> None:
    """Whoever sends the longest script of them would else hold up each plan to its time limit."""
    assert finished_script("\\\n" * 500_000) == ""
    assert finished_script("\\" * 500_001 + "\n") == "\\" * 500_000


@pytest.mark.parametrize("text", ["", "   ", "\n\t\n", None])
def test_an_empty_entrypoint_leaves_the_container_alone(text: str | None) -> None:
    """Who gives no entrypoint gets the image's own command."""
    assert command(text) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("#!/usr/bin/awk\nx", "awk"),
        ("#!/usr/bin/env lua\nx", "lua"),
        ("#!\nx", "names no interpreter"),
        ("#!/usr/bin/env\nx", "without naming an interpreter"),
        ("#!/usr/bin/env FOO=1\nx", "without naming an interpreter"),
    ],
)
def test_an_interpreter_that_takes_no_script_is_refused(text: str, word: str) -> None:
    """A script is never handed to a program that would take it for something else."""
    with pytest.raises(SpecError, match=word) as caught:
        command(text)
    assert caught.value.path == "spec.entrypoint"


def test_the_limit_counts_bytes() -> None:
    """131,071 bytes pass, one more is refused with the limit and what to do instead."""
    assert command("x" * 131_071)
    assert command("é" * 65_535)
    for text in ("x" * 131_072, "é" * 65_536, "x" * 1_000_000):
        with pytest.raises(SpecError, match=r"131071.*data volume"):
            command(text)


@given(st.text(max_size=300))
def test_any_text_gives_a_command_or_a_refusal(text: str) -> None:
    """No entrypoint crashes anything."""
    refused = text.strip().startswith("#!")
    try:
        words = command(text)
    except SpecError:
        assert refused
    else:
        assert words is None or all(isinstance(word, str) for word in words)
