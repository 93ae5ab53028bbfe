"""Log records: one line each, with fields and tracebacks."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Literal

import pytest

from kaiwo.engine.logging import SUBJECT, about, setup_logging

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A place for logs; afterwards logging is as before."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_logs_are_one_object_per_line(stream: io.StringIO) -> None:
    """A log collector reads fields, whatever is in the message."""
    setup_logging("json", stream=stream)
    logging.getLogger("x").info("two\nlines %s", "é", extra={"fields": {"key": "ns/a", "odd": object}})
    line = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert (line["level"], line["logger"], line["message"], line["key"]) == (
        "info",
        "x",
        "two\nlines é",
        "ns/a",
    )


def test_text_logs_are_one_line_per_record(stream: io.StringIO) -> None:
    """A message cannot fake another record."""
    setup_logging("text", "WARNING", stream)
    logging.getLogger("x").warning("one\n2026 ERROR fake", extra={"fields": {"key": "ns/a"}})
    logging.getLogger("x").info("hidden")
    assert stream.getvalue().count("\n") == 1
    assert "WARNING x: one\\n2026 ERROR fake key=ns/a" in stream.getvalue()


@pytest.mark.parametrize("format_", ["json", "text"])
def test_a_line_has_the_object_that_the_task_works_on(
    stream: io.StringIO, format_: Literal["json", "text"]
) -> None:
    """Also a line of code that knows nothing of the object; one about another object has that one's key."""
    setup_logging(format_, stream=stream)
    token = SUBJECT.set(("KaiwoJob", "team", "train"))
    logging.getLogger("x").info("sent")
    logging.getLogger("x").info("other", extra=about("Node", "", "gpu-1"))
    SUBJECT.reset(token)
    logging.getLogger("x").info("nothing")
    lines = stream.getvalue().splitlines()
    if format_ == "text":
        assert [line.partition("x: ")[2] for line in lines] == [
            "sent kind=KaiwoJob namespace=team name=train", "other kind=Node name=gpu-1", "nothing",
        ]  # fmt: skip
        return
    keys = [{key: json.loads(line).get(key) for key in ("kind", "namespace", "name")} for line in lines]
    assert keys == [
        {"kind": "KaiwoJob", "namespace": "team", "name": "train"},
        {"kind": "Node", "namespace": None, "name": "gpu-1"},
        {"kind": None, "namespace": None, "name": None},
    ]


def test_a_value_in_a_text_line_cannot_fake_a_field(stream: io.StringIO) -> None:
    """What could be read as several fields, or as another line, is in quotes."""
    setup_logging("text", stream=stream)
    logging.getLogger("x").info("odd", extra={"fields": {"reason": "a level=ERROR\nfake"}})
    assert stream.getvalue().endswith('odd reason="a level=ERROR\\nfake"\n')


def test_tracebacks_are_logged(stream: io.StringIO) -> None:
    """A defect is found from its log."""
    for format_ in ("json", "text"):
        setup_logging(format_, stream=stream)
        try:
            _ = 1 // int("0")
        except ZeroDivisionError:
            logging.getLogger("x").exception("broken")
    assert stream.getvalue().count("ZeroDivisionError") >= 2
