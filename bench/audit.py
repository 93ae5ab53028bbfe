"""The API server's audit log: who wrote what and when, counted by the API server itself."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
{more}- level: Metadata
"""

POLICY = _POLICY.format(more="")

POLICY_WITH_STATUS = _POLICY.format(
    more="""\
- level: Request
  resources:
  - {group: kaiwo.silogen.ai, resources: [kaiwojobs/status]}
  - {group: batch, resources: [jobs/status]}
"""
)
"""The same, and what was written into the status of KaiwoJobs and Jobs."""


class _User(msgspec.Struct):
    username: str


class _Object(msgspec.Struct):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class Write(msgspec.Struct, rename="camel"):
    """One mutating request, as the API server saw it."""

    verb: str
    user: _User
    request_received_timestamp: datetime
    stage_timestamp: datetime
    object_ref: _Object = msgspec.field(default_factory=_Object)
    response_status: _Status = msgspec.field(default_factory=_Status)
    user_agent: str = ""
    request_object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)

    @property
    def body(self) -> dict[str, Any]:
        """What was sent, where the policy logs it."""
        sent = bytes(self.request_object)
        return msgspec.json.decode(sent, type=dict[str, Any]) if sent else {}

    @property
    def ok(self) -> bool:
        """Whether it was accepted."""
        return self.response_status.code < 300

    @property
    def received(self) -> float:
        """Unix time at which the request arrived."""
        return self.request_received_timestamp.timestamp()

    @property
    def done(self) -> float:
        """Unix time at which the answer was complete."""
        return self.stage_timestamp.timestamp()

    @property
    def target(self) -> str:
        """``verb resource`` or ``verb resource/subresource``."""
        ref = self.object_ref
        return f"{self.verb} {ref.resource}" + (f"/{ref.subresource}" if ref.subresource else "")


class AuditLog:
    """Reads the log as it grows.

    The API server writes an event before it answers the request (mode ``blocking``), so a client that has its
    answer finds the event here.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decode = msgspec.json.Decoder(Write).decode

    def read(self) -> list[Write]:
        """Writes logged since the last call; a line that is not complete yet waits for the next one."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(self._offset)
            data = log.read()
        complete = data.rfind(b"\n") + 1
        self._offset += complete
        return [self._decode(line) for line in data[:complete].splitlines()]
