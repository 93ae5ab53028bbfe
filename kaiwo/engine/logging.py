"""Log records as one line each: JSON objects for collectors, or plain text."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

import msgspec


class _JsonFormatter(logging.Formatter):
    """One JSON object per record; what a caller passes as ``extra={"fields": {...}}`` becomes keys."""

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
        extras = "".join(f" {name}={value}" for name, value in _fields(record).items())
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
    for noisy in ("aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _stamp(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}
