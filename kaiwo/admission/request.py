"""A request of the API server to a webhook, read from an AdmissionReview."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kaiwo.engine.decode_limits import fault, members, readable

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
"""The only version that is answered; every supported Kubernetes release sends it."""

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes of an AdmissionReview. An update holds the object twice, and etcd takes 1.5 MB of one by default."""


@dataclass(frozen=True, slots=True)
class Requester:
    """Who makes a request, as the API server authenticated it."""

    username: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One write that the API server asks about.

    Attributes:
        uid: identifies the request; the answer repeats it.
        group, version, kind: of the object.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        namespace: empty for an object of the cluster.
        name: empty while the API server has not generated it from `generateName`.
        user: who asks.
        object: the object as it would be written; None for a DELETE.
        old_object: the object as it is; None for a CREATE.
        dry_run: whether nothing will be written.
        subresource: for example ``status``; empty for the object itself.
        unreadable: what of the object is nested too deeply or too large, and was not so before; it is
            missing in `object`. Empty for nearly all objects.
    """

    uid: str
    group: str = ""
    version: str = ""
    kind: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    user: Requester = field(default_factory=Requester)
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool = False
    subresource: str = ""
    unreadable: str = ""

    @property
    def changes_spec(self) -> bool:
        """Whether it writes a spec that is to be judged.

        Nobody is judged by what somebody else wrote: not who changes metadata or status only, and not the
        garbage collector, which takes finalizers off an object that is being deleted.
        """
        if self.object is None or self.subresource or self.operation not in ("CREATE", "UPDATE"):
            return False
        metadata = self.object.get("metadata")
        if isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None:
            return False
        if self.unreadable or self.old_object is None:
            return True
        return not _same(self.object.get("spec"), self.old_object.get("spec"))


def _same(one: Any, other: Any) -> bool:
    """Whether JSON values are equal; unlike for ``==``, 1 is not true."""
    if one != other or type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return all(_same(value, other[key]) for key, value in one.items())
    return not isinstance(one, list) or all(map(_same, one, other))


class UnreadableReview(ValueError):
    """An AdmissionReview that cannot be read.

    Attributes:
        uid: of its request, empty where it has none.
        code: HTTP code of the refusal.
    """

    def __init__(self, message: str, *, uid: str = "", code: int = 400) -> None:
        super().__init__(message)
        self.uid = uid
        self.code = code


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _UserInfo(msgspec.Struct):
    username: str = ""
    groups: list[str] | None = None
    uid: str = ""


class _Fields(msgspec.Struct):
    """What a request holds besides the objects and the options."""

    uid: str = ""
    kind: _Kind = msgspec.field(default_factory=_Kind)
    subResource: str = ""  # noqa: N815 -- JSON's own spelling
    operation: str = ""
    namespace: str = ""
    name: str = ""
    userInfo: _UserInfo = msgspec.field(default_factory=_UserInfo)  # noqa: N815
    dryRun: bool | None = None  # noqa: N815


_decode_text = msgspec.json.Decoder(str).decode
_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_names = tuple((name, f'"{name}":'.encode()) for name in _Fields.__struct_fields__)


def read_request(body: bytes) -> Request:
    """The request in the body of an AdmissionReview.

    Raises:
        UnreadableReview: it is too large, no AdmissionReview of version 1, or not JSON.
    """
    if len(body) > MAX_BODY:
        raise UnreadableReview(
            f"AdmissionReview has {len(body)} bytes, at most {MAX_BODY} are read; make the object smaller",
            code=413,
        )
    uid = ""
    try:
        envelope = members(body.strip())
        request = members(envelope.get("request", b""))
        uid = _decode_text(request.get("uid", b'""'))
        version, kind = (_decode_text(envelope.get(name, b'""')) for name in ("apiVersion", "kind"))
        if (version, kind) != (API_VERSION, KIND):
            raise UnreadableReview(f"expected {API_VERSION} {KIND}, got {version} {kind}", uid=uid)  # noqa: TRY301
        return _read(request)
    except UnreadableReview:
        raise
    except (ValueError, RecursionError) as error:  # also of msgspec, and of text that is not UTF-8
        raise UnreadableReview(f"body is not an AdmissionReview: {error}", uid=uid) from error


def _read(request: dict[str, bytes]) -> Request:
    """The request of its members, each still JSON."""
    found = _decode_fields(
        b"{" + b",".join(prefix + request[name] for name, prefix in _names if name in request) + b"}"
    )
    new, omitted = _object(request.get("object"))
    old, omitted_before = _object(request.get("oldObject"))
    unreadable = (
        why for name, (why, value) in omitted.items() if omitted_before.get(name, "") != (why, value)
    )
    return Request(
        uid=found.uid,
        group=found.kind.group,
        version=found.kind.version,
        kind=found.kind.kind,
        operation=found.operation,
        namespace=found.namespace,
        name=found.name,
        user=Requester(found.userInfo.username, tuple(found.userInfo.groups or ()), found.userInfo.uid),
        object=new,
        old_object=old,
        dry_run=bool(found.dryRun),
        subresource=found.subResource,
        unreadable="; ".join(unreadable),
    )


def _object(raw: bytes | None) -> tuple[dict[str, Any] | None, dict[str, tuple[str, bytes]]]:
    """An object, and what of it is beyond the limits: why, and as it stands there."""
    if raw is None or raw == b"null":
        return None, {}
    if not fault(raw):
        return _decode_object(raw), {}
    document, omitted = readable(raw)
    parts = members(raw)
    return _decode_object(document), {name: (why, parts[name]) for name, why in omitted.items()}
