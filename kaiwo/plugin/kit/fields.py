"""Types of fields: of a backend's block, of the items of a download source, of settings and custom kinds.

Each is checked alike by the API server and by the command line. Strings have a maximum length, and patterns
use only the syntax that Go and Rust share.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, StringConstraints

from kaiwo.api.base_model import Model
from kaiwo.api.scalars import HTTP_URL, INT32_MAX, RELATIVE_PATH, SUBDOMAIN, ObjectName, Opaque
from kaiwo.api.status import Conditions
from kaiwo.api.validation_errors import explain

__all__ = [
    "HTTP_URL",
    "INT32_MAX",
    "RELATIVE_PATH",
    "SUBDOMAIN",
    "Conditions",
    "ContainerFile",
    "Model",
    "ObjectName",
    "Opaque",
    "SecretKey",
    "SecretName",
    "Sha256",
    "TargetFile",
    "TargetPath",
    "Url",
    "ValueReference",
    "explain",
]


def _check_relative(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("leaves the volume; write a path without '..'")
    return path


def _check_file(path: str) -> str:
    if path.endswith("/"):
        raise ValueError("ends with '/' and names a folder; expected a file")
    return path


def _check_no_credentials(url: str) -> str:
    if "@" in url.partition("//")[2].partition("/")[0]:
        raise ValueError("must not contain credentials; store them in a Secret")
    return url


Url: TypeAlias = Annotated[
    str, StringConstraints(max_length=2048, pattern=HTTP_URL), AfterValidator(_check_no_credentials)
]
"""An http or https URL without credentials."""

TargetPath: TypeAlias = Annotated[
    str, StringConstraints(max_length=1024, pattern=RELATIVE_PATH), AfterValidator(_check_relative)
]
"""The target of a download, relative to the volume; it cannot leave the volume."""

TargetFile: TypeAlias = Annotated[TargetPath, AfterValidator(_check_file)]
"""The target of one file."""

Sha256: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$")]
"""A SHA-256 digest in hexadecimal."""

SecretName: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
"""Name of a Secret, a DNS-1123 subdomain."""

SecretKey: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._A-Za-z0-9]+$")
]
"""Key in a Secret."""

ContainerFile: TypeAlias = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^/")]
"""An absolute path inside the download container."""


class ValueReference(Model):
    """A value in a Secret of the workload's namespace.

    In an item of a download source it is found by itself: the operator mounts this key into the download pod,
    and ``downloads.secret(where, item.token)`` reads it.
    """

    file: Annotated[
        ContainerFile | None,
        Field(
            description="Where the value is mounted in the download container; by default "
            "/app/secrets/<secretName>/<secretKey>."
        ),
    ] = None
    secret_name: Annotated[SecretName, Field(description="Name of the Secret.")]
    secret_key: Annotated[SecretKey, Field(description="Key in the Secret.")]
