"""Queries a Prometheus server, and reads its answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from kaiwo.workload.monitoring.samples import EXPORTED

if TYPE_CHECKING:
    from kaiwo.workload.monitoring.samples import Meaning, Samples

PATH: Final = "/api/v1/query"

_SHOWN: Final = 200


class QueryError(Exception):
    """An answer that is none of Prometheus' query API, or an error; the message is one line."""


def query_of(metric: str, meaning: Meaning, fresh: float) -> str:
    """The query for the samples of one metric that are not older than `fresh` seconds.

    Prometheus answers with samples of up to five minutes ago, all with the time of the query, so it is asked
    for those with a recent time. That time and "now" are both of its own clock. All labels but those that are
    read are left out, of equal ones the highest sample counts.

    Args:
        metric: its name.
        meaning: what it means.
        fresh: seconds.
    """
    one = meaning.utilization
    if not one.gpu_labels:
        return f"{metric} and (timestamp({metric}) > time() - {fresh:g})"
    selected = [f'{metric}{{{label}!=""}}' for label in (one.pod_label, EXPORTED + one.pod_label)]
    either = " or ".join(selected)
    return f"max by ({', '.join(meaning.labels)}) (({either}) and (timestamp({metric}) > time() - {fresh:g}))"


class _Series(msgspec.Struct, gc=False):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, gc=False):
    kind: str = msgspec.field(name="resultType", default="")
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct, gc=False):
    status: str = ""
    error: str = ""
    data: _Data | None = None


_decode = msgspec.json.Decoder(_Answer).decode
_decode_series = msgspec.json.Decoder(list[_Series]).decode


def read_answer(body: bytes, meaning: Meaning, samples: Samples) -> float | None:
    """Take the samples of an answer.

    Args:
        body: of the answer.
        meaning: of the metric that was asked for.
        samples: takes the samples.

    Returns:
        The time of the evaluation, seconds since the epoch; None of an answer without samples.

    Raises:
        QueryError: it is an error, or no vector.
        TooManySamplesError: there are more samples than any cluster has GPUs.
    """
    try:
        answer = _decode(body)
        if answer.status != "success" or answer.data is None:
            raise QueryError(answer.error[:_SHOWN] or "no result")
        if answer.data.kind != "vector":
            raise QueryError(f"expected a vector, got {answer.data.kind[:_SHOWN]!r}")
        series = _decode_series(answer.data.result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise QueryError(f"no answer of Prometheus' query API: {str(error)[:_SHOWN]}") from None
    at: float | None = None
    for one in series:
        try:
            value = float(one.value[1])
        except ValueError:
            value = math.nan
        at = one.value[0]
        samples.add(meaning, one.metric, value)
    return at
