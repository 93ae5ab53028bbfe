"""Log records: one line each, with fields and tracebacks."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.logging import setup_logging

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


def test_tracebacks_are_logged(stream: io.StringIO) -> None:
    """A defect is found from its log."""
    for format_ in ("json", "text"):
        setup_logging(format_, stream=stream)
        try:
            _ = 1 // int("0")
        except ZeroDivisionError:
            logging.getLogger("x").exception("broken")
    assert stream.getvalue().count("ZeroDivisionError") >= 2
