"""Asking a controller on this machine whether it works."""

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
_NO_REVIEW = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})


def answers(port: int, path: str) -> bool:
    """Whether `path` (``/readyz`` or ``/healthz``) on `port` answers 200."""
    with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_SECONDS)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def serves(port: int, paths: Iterable[str], ca_file: Path) -> bool:
    """Whether the webhook server on `port` knows all `paths`; /readyz is true before they are registered."""
    context = ssl.create_default_context(cafile=str(ca_file))
    connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=_TIMEOUT_SECONDS)
    with closing(connection):
        try:
            for path in paths:
                connection.request("POST", path, _NO_REVIEW, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == NOT_FOUND:
                    return False
        except (OSError, http.client.HTTPException):
            return False
    return True
