"""AdmissionReviews as the API server sends them, and what a review answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

Document = Mapping[str, Any]

USER = "jane@example.com"
"""Who makes a request unless a test says otherwise."""


def admission_review(
    obj: Document | None,
    *,
    old: Document | None = None,
    user: str = USER,
    groups: tuple[str, ...] = ("system:authenticated",),
    dry_run: bool = False,
    subresource: str = "",
) -> bytes:
    """The AdmissionReview of a CREATE, with `old` of an UPDATE, and with `old` alone of a DELETE."""
    shown = obj or old or {}
    group, _, version = str(shown.get("apiVersion", "v1")).rpartition("/")
    metadata = shown.get("metadata", {})
    request = {
        "uid": "7d0b1b7e-0000-4000-8000-000000000001",
        "kind": {"group": group, "version": version, "kind": shown.get("kind", "")},
        "operation": "CREATE" if old is None else "UPDATE" if obj is not None else "DELETE",
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
        "userInfo": {"username": user, "groups": list(groups)},
        "object": obj,
        "oldObject": old,
        "dryRun": dry_run,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    if subresource:
        request["subResource"] = subresource
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    )


def answered(body: bytes) -> dict[str, Any]:
    """The response in an AdmissionReview, with its patch decoded."""
    review = msgspec.json.decode(body, type=dict[str, Any])
    response: dict[str, Any] = review["response"]
    if "patch" in response:
        response["patch"] = msgspec.json.decode(base64.b64decode(response["patch"]))
    return response


def answer_to(body: bytes, *, allowed: bool, message: str = "") -> bytes:
    """The AdmissionReview that answers a request, of a webhook that looks at nothing."""
    request = msgspec.json.decode(body, type=dict[str, Any])["request"]
    response: dict[str, Any] = {"uid": request["uid"], "allowed": allowed}
    if message:
        response["status"] = {"message": message}
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
    )
