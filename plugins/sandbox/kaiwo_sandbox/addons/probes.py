"""Readiness probes for the controllers of a sandbox."""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import closing
from typing import TYPE_CHECKING

from kaiwo_sandbox.api import NOT_FOUND
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TIMEOUT_SECONDS = 5.0
_EMPTY_REVIEW = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})


def is_ready(port: int, path: str, *, host: str = LOOPBACK) -> bool:
    """Whether `path` (``/readyz`` or ``/healthz``) on `port` returns status 200."""
    with closing(http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def serves_webhooks(port: int, paths: Iterable[str], ca_file: Path) -> bool:
    """Whether the webhook server on `port` serves all `paths`; /readyz succeeds before that."""
    context = ssl.create_default_context(cafile=str(ca_file))
    connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=_TIMEOUT_SECONDS)
    with closing(connection):
        try:
            for path in paths:
                connection.request("POST", path, _EMPTY_REVIEW, {"Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
                if response.status == NOT_FOUND:
                    return False
        except (OSError, http.client.HTTPException):
            return False
    return True
