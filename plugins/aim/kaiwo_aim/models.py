"""What an administrator of a namespace writes: AIMNamespaceConfig. Every list has a bound."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kaiwo.plugin.kit.fields import Conditions, Model, ObjectName, SecretKey, SecretName, Url

MAX_S3 = 32
MAX_OTHERS = 8
MAX_PULL_SECRETS = 16


class SecretValue(Model):
    """A key of a Secret in the namespace."""

    secret_name: Annotated[SecretName, Field(description="Name of the Secret.")]
    secret_key: Annotated[SecretKey, Field(description="Key in the Secret.")]


class S3Credential(Model):
    """Keys for one S3 endpoint."""

    endpoint_url: Annotated[
        Url | None,
        Field(description="Endpoint whose downloads get the keys; without one the entry is not used."),
    ] = None
    access_key_id: Annotated[SecretValue | None, Field(description="Access key ID.")] = None
    secret_access_key: Annotated[SecretValue | None, Field(description="Secret access key.")] = None


class GcsCredential(Model):
    """A service account of Google Cloud."""

    application_credentials: Annotated[
        SecretValue | None, Field(description="JSON key of the service account.")
    ] = None


class AzureBlobCredential(Model):
    """A storage account of Azure."""

    connection_string: Annotated[
        SecretValue | None, Field(description="Connection string of the storage account.")
    ] = None


class Credentials(Model):
    """Credentials for what gives none itself."""

    hugging_face_token: Annotated[
        SecretValue | None,
        Field(description="HF_TOKEN of workloads with huggingFace storage, and of their downloads."),
    ] = None
    s3: Annotated[
        tuple[S3Credential, ...] | None,
        Field(strict=False, max_length=MAX_S3, description="Keys for S3 downloads, by endpoint."),
    ] = None
    gcs: Annotated[
        tuple[GcsCredential, ...] | None,
        Field(
            strict=False,
            max_length=MAX_OTHERS,
            description="Credentials for downloads from Google Cloud Storage; the first is used.",
        ),
    ] = None
    azure_blob: Annotated[
        tuple[AzureBlobCredential, ...] | None,
        Field(
            strict=False,
            max_length=MAX_OTHERS,
            description="Credentials for downloads from Azure Blob Storage; the first is used.",
        ),
    ] = None


class Images(Model):
    """How images are pulled."""

    image_pull_secrets: Annotated[
        tuple[SecretName, ...] | None,
        Field(
            strict=False,
            max_length=MAX_PULL_SECRETS,
            description="Names of Secrets that are added to the imagePullSecrets of all generated pods.",
        ),
    ] = None


class GatewayReference(Model):
    """A Gateway that exists."""

    name: Annotated[ObjectName | None, Field(description="Name of the Gateway.")] = None
    namespace: Annotated[
        ObjectName | None, Field(description="Its namespace; by default that of this object.")
    ] = None


class NamespaceConfigSpec(Model):
    """Defaults for the workloads of the namespace. What a workload says itself always wins."""

    gateway: Annotated[
        GatewayReference | None,
        Field(description="Gateway that reaches each KaiwoService at /<namespace>/<name>/."),
    ] = None
    credentials: Annotated[
        Credentials | None, Field(description="Secrets for downloads that give no credentials.")
    ] = None
    images: Annotated[Images | None, Field(description="How images are pulled.")] = None


class NamespaceConfigStatus(Model):
    """What the operator says of it."""

    observed_generation: Annotated[int | None, Field(description="Generation that was acted on.")] = None
    conditions: Annotated[Conditions, Field(description="InUse, Valid and RoutesReady.")] = ()
