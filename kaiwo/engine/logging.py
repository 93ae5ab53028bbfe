"""Log records as one line each: JSON objects for collectors, or plain text."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

import msgspec

SUBJECT: Final[ContextVar[tuple[str, str, str] | None]] = ContextVar("subject", default=None)
"""Kind, namespace and name of the object that this task works on; its log lines have them as fields."""


def about(kind: str, namespace: str, name: str) -> dict[str, dict[str, str]]:
    """Give a line the fields of the object that it is about, where the task works on another one or on none.

    Args:
        kind: of the object.
        namespace: of the object, empty for cluster-scoped ones.
        name: of the object.

    Returns:
        The argument ``extra`` of a logger's method.
    """
    return {"fields": _subject_fields((kind, namespace, name))}


class _JsonFormatter(logging.Formatter):
    """One JSON object per record; fields become keys.

    Fields are those of `SUBJECT`, and what a caller passes as ``extra={"fields": {...}}``.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class _TextFormatter(logging.Formatter):
    """``time LEVEL logger: message key=value``, one line per record even if the message has several."""

    def format(self, record: logging.LogRecord) -> str:
        extras = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        text = record.getMessage().replace("\n", "\\n")
        line = f"{_stamp(record)} {record.levelname} {record.name}: {text}{extras}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def setup_logging(
    format_: Literal["json", "text"] = "text", level: str = "INFO", stream: TextIO | None = None
) -> None:
    """Send all records to one stream, one line each.

    Requests and answers are never logged, so that no Secret's value and no token can be.

    Args:
        format_: JSON objects or plain text.
        level: name of the lowest level shown.
        stream: stderr by default.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if format_ == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # What no line shows is not found out: the caller, the thread, the process (Python's Logging HOWTO).
    logging._srcfile = None  # noqa: SLF001
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    for noisy in ("aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _stamp(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _fields(record: logging.LogRecord) -> dict[str, object]:
    subject, fields = SUBJECT.get(), getattr(record, "fields", None)
    given: dict[str, object] = fields if isinstance(fields, dict) else {}
    return given if subject is None or "kind" in given else {**_subject_fields(subject), **given}


def _subject_fields(subject: tuple[str, str, str]) -> dict[str, str]:
    kind, namespace, name = subject
    return {"kind": kind, **({"namespace": namespace} if namespace else {}), "name": name}


def _quoted(value: object) -> str:
    """The text of a value; in quotes where it could be taken for more than one field."""
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else json.dumps(text)
