"""The trusted authorities in the webhook configurations: whether they are as wanted, and what is written."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from kaiwo.admission.certificates import is_trusted
from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_GROUP = "admissionregistration.k8s.io"

CONFIGURATIONS: Final = (
    Resource(
        _GROUP, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
    ),
    Resource(_GROUP, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False),
)


def bundles_of(configuration: Mapping[str, Any]) -> dict[str, bytes]:
    """The authorities that each webhook of a configuration has, by its name; empty for none."""
    found = {}
    for webhook in configuration.get("webhooks") or ():
        text = (webhook.get("clientConfig") or {}).get("caBundle") or ""
        try:
            found[str(webhook["name"])] = base64.b64decode(text, validate=True)
        except binascii.Error:
            found[str(webhook["name"])] = b""
    return found


def trusted_by(configurations: Iterable[Mapping[str, Any]], certificate: bytes) -> bool:
    """Whether all webhooks of the configurations trust a certificate."""
    bundles = {bundle for one in configurations for bundle in bundles_of(one).values()}
    return all(is_trusted(certificate, bundle) for bundle in bundles)


def with_bundle(configuration: Mapping[str, Any], authorities: bytes) -> dict[str, Any] | None:
    """The document that a server-side apply sends; None while nothing is to be written.

    It has nothing but the authorities of each webhook: the API server merges webhooks by their names.
    """
    bundles = bundles_of(configuration)
    if all(bundle == authorities for bundle in bundles.values()):
        return None
    metadata = configuration["metadata"]
    text = base64.b64encode(authorities).decode()
    return {
        "apiVersion": configuration["apiVersion"],
        "kind": configuration["kind"],
        "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
        "webhooks": [{"name": name, "clientConfig": {"caBundle": text}} for name in bundles],
    }
