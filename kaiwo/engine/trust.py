"""Trust in the authorities that an administrator names, checked as kubectl and other Go programs do."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def trusting(*, cadata: str | None = None, cafile: Path | None = None) -> ssl.SSLContext:
    """TLS settings of a client that trusts these authorities; without any, those of the system.

    Every certificate given is trusted, an intermediate one too, and so is one without the extensions that RFC
    5280 asks for. From Python 3.13 on the default is stricter, and the authorities of many clusters, EKS
    among them, have no key identifiers.

    Args:
        cadata: certificates (PEM).
        cafile: file with certificates (PEM).
    """
    context = ssl.create_default_context(cadata=cadata, cafile=cafile)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
