"""The parts of Kubernetes' core types that appear inside Kaiwo's kinds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kaiwo.api.base_model import Model
from kaiwo.api.scalars import ABSOLUTE_PATH, DNS_LABEL, ObjectName, Opaque, QuantityValue
from kaiwo.api.spec_rules import MAX_ARGUMENT_BYTES

MAX_RESOURCES = 256
"""Resources of a container; nodes offer a dozen."""


class EnvVar(Model):
    """An environment variable, as in a container."""

    name: Annotated[str, Field(min_length=1, max_length=1024, description="Name of the variable.")]
    value: Annotated[
        str | None,
        Field(max_length=MAX_ARGUMENT_BYTES, description='Its value, always a string: write "1", not 1.'),
    ] = None
    value_from: Annotated[
        Opaque | None,
        Field(
            description="Where the value comes from, as in a container: fieldRef, resourceFieldRef, "
            "configMapKeyRef, secretKeyRef or fileKeyRef."
        ),
    ] = None


class LocalObjectReference(Model):
    """The name of an object in the same namespace."""

    name: Annotated[ObjectName, Field(description="Name of the object.")]


class ResourceClaim(Model):
    """A claim on a device, as in a container's resources."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=253, description="Name of an entry in the pod's resourceClaims."),
    ]
    request: Annotated[str | None, Field(max_length=253, description="Name of one request in the claim.")] = (
        None
    )


class ResourceRequirements(Model):
    """Resource requests and limits, as in a container."""

    requests: Annotated[
        dict[str, QuantityValue] | None,
        Field(max_length=MAX_RESOURCES, description="What is reserved, by resource name."),
    ] = None
    limits: Annotated[
        dict[str, QuantityValue] | None,
        Field(max_length=MAX_RESOURCES, description="What may be used at most, by resource name."),
    ] = None
    claims: Annotated[
        tuple[ResourceClaim, ...] | None,
        Field(
            strict=False,
            max_length=MAX_RESOURCES,
            description="Devices claimed from the pod's resourceClaims.",
        ),
    ] = None


class SecretVolume(Model):
    """A secret, or one key of it, mounted into the containers of a workload."""

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=63,
            pattern=DNS_LABEL,
            description="Name of the volume, unique within the pod.",
        ),
    ]
    secret_name: Annotated[ObjectName, Field(description="Name of the Secret.")]
    key: Annotated[
        str | None, Field(max_length=253, description="Key to mount; the whole Secret if left out.")
    ] = None
    sub_path: Annotated[
        str | None,
        Field(
            max_length=4096,
            description="With a key: name of the file in mountPath, by default the key. "
            "Without: the file of the Secret to mount.",
        ),
    ] = None
    mount_path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=4096,
            pattern=ABSOLUTE_PATH,
            description="Directory, or file, in the container.",
        ),
    ]
