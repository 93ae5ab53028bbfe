"""Names of the webhooks' objects, their HTTP paths and the files of their certificates."""

from __future__ import annotations

from typing import Final

SERVICE: Final = "kaiwo-webhooks"
"""Name of the Service in the operator's namespace."""

SECRET: Final = "kaiwo-webhook-certificate"  # noqa: S105 -- the name of an object
"""Name of the Secret in the operator's namespace that holds the certificates that the operator signed."""

VALIDATE_WORKLOADS: Final = "/validate/workloads"
VALIDATE_TEMPLATES: Final = "/validate/templates"
VALIDATE_CONFIGURATIONS: Final = "/validate/configurations"
VALIDATE_JOBS: Final = "/validate/jobs"
MUTATE_WORKLOADS: Final = "/mutate/workloads"
MUTATE_JOBS: Final = "/mutate/jobs"

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
"""Files of a certificate folder, and keys of the Secret: the certificate with its chain, its private key, and
the authorities that the API server is told to trust."""


def configurations_name(namespace: str) -> str:
    """The name of the two webhook configurations of an installation.

    Args:
        namespace: of the operator.
    """
    return f"{SERVICE}.{namespace}"


def server_names(namespace: str) -> tuple[str, ...]:
    """The names that a certificate must be valid for; the API server checks the first one.

    Args:
        namespace: of the operator.
    """
    return (f"{SERVICE}.{namespace}.svc",)
