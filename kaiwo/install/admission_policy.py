"""Renders a ValidatingAdmissionPolicy together with the binding by which it denies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.api.installation import head
from kaiwo.install.rendered_manifest import RenderedManifest

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

API_VERSION: Final = "admissionregistration.k8s.io/v1"


def denying_policy(name: str, spec: Object, *, app: str, installation: str) -> list[RenderedManifest]:
    """A policy and its binding of the same name; a request that a validation fails is denied.

    Args:
        name: of both, the installation included.
        spec: of the policy.
        app: which program the policy is about.
        installation: the namespace of the installation.
    """
    policy = head(API_VERSION, "ValidatingAdmissionPolicy", name, app=app, installation=installation)
    policy["spec"] = spec
    binding = head(API_VERSION, "ValidatingAdmissionPolicyBinding", name, app=app, installation=installation)
    binding["spec"] = {"policyName": name, "validationActions": ["Deny"]}
    return [RenderedManifest(policy), RenderedManifest(binding)]
