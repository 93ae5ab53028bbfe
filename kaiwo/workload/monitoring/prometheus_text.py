"""Reads Prometheus' text format in pieces, as far as the declared metrics go.

The reader of prometheus_client takes 2.8 s of CPU for 40,000 samples, and gives up at the first line that it
does not understand (docs/decisions/monitoring.md). This one passes over such a line and goes on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.workload.monitoring.samples import Meaning, Samples

LONGEST_LINE: Final = 1 << 16
"""Bytes of a line; no exporter writes a sample a tenth of that."""

# Possessive throughout: a line matches in one pass or not at all.
_NAME: Final = rb"[ \t]*+([A-Za-z_]\w*+)[ \t]*+=[ \t]*+"
_QUOTED: Final = rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t]*+'
_LABEL: Final = re.compile(_NAME + _QUOTED + rb",?+")
_LABELS: Final = (_NAME + _QUOTED).replace(b"([", b"(?:[") + rb"(?:,[ \t]*+|(?=\}))"
_REST: Final = re.compile(
    rb"((?:" + _LABELS + rb")*+)\}[ \t]++"
    rb"([0-9.eE+-]{1,32}+|NaN|[+-]?Inf)"  # value
    rb"(?:[ \t]++(-?[0-9.]{1,20}+))?+[ \t\r]*+(?:#.*+)?+"  # time, and the exemplar of OpenMetrics
)
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "\\": "\\", '"': '"'}


class TextReader:
    """Takes the bytes of an answer piece by piece, and puts the samples where they belong.

    Attributes:
        unreadable: lines of declared metrics that are no samples.
    """

    def __init__(
        self,
        metrics: Mapping[str, Meaning],
        samples: Samples,
        *,
        oldest: float,
        newest: float,
        unit: float = 0.001,
    ) -> None:
        """Nothing is read yet.

        Args:
            metrics: the metrics to read, by name.
            samples: takes the samples.
            oldest: seconds since the epoch; a sample with a time before it is stale.
            newest: likewise; a sample with a time after it comes from the future.
            unit: seconds in the unit of times: milliseconds, but seconds in OpenMetrics.
        """
        self.unreadable = 0
        self._metrics = {
            name.encode(): (meaning, {label.encode(): label for label in meaning.labels})
            for name, meaning in metrics.items()
        }
        self._samples = samples
        self._oldest, self._newest, self._unit = oldest, newest, unit
        self._rest = b""
        self._too_long = False

    def feed(self, piece: bytes) -> None:
        """Take the next bytes.

        Raises:
            TooManySamplesError: there are more samples than any cluster has GPUs.
        """
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if self._too_long and lines:
            del lines[0]  # the end of a line whose beginning was dropped
            self._too_long = False
        for line in lines:
            self._line(line)
        if len(self._rest) > LONGEST_LINE:
            self.unreadable += not self._too_long
            self._rest, self._too_long = b"", True

    def close(self) -> None:
        """Take the last line, which may lack its end."""
        self.feed(b"\n")

    def _line(self, line: bytes) -> None:
        name, brace, rest = line.partition(b"{")
        known = self._metrics.get(name.strip())
        if known is None or not brace:
            return
        meaning, wanted = known
        found = _REST.fullmatch(rest) if len(rest) <= LONGEST_LINE else None
        labels = _labels(found[1], wanted) if found is not None else None
        if found is None or labels is None:
            self.unreadable += 1
            return
        try:
            value = float(found[2])
            at = float(found[3]) * self._unit if found[3] else None
        except ValueError:
            self.unreadable += 1
            return
        if at is not None and not self._oldest <= at <= self._newest:
            self._samples.stale += 1
            return
        self._samples.add(meaning, labels, value)


def _labels(text: bytes, wanted: Mapping[bytes, str]) -> dict[str, str] | None:
    """The wanted labels of a list that was matched as a whole; None where a name stands twice, or no text."""
    pairs = _LABEL.findall(text)
    values = dict(pairs)
    if len(values) != len(pairs):
        return None
    try:
        labels = {label: values[name].decode() for name, label in wanted.items() if name in values}
    except UnicodeDecodeError:
        return None
    if b"\\" in text:
        labels = {name: _ESCAPE.sub(_unescaped, value) for name, value in labels.items()}
    return labels


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[0])
