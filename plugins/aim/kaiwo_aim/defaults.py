"""Reads the defaults of an AIMNamespaceConfig, part by part: a malformed part spoils no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from kaiwo.plugin.kit.fields import explain
from kaiwo.plugin.namespace_defaults import (
    DefaultsProblem,
    DefaultValues,
    ItemCredentials,
    SecretVariable,
    same_server,
)
from kaiwo.plugin.sources import SecretReference
from kaiwo_aim.models import NamespaceConfigSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_aim.models import AzureBlobCredential, GcsCredential, S3Credential, SecretValue

S3: Final = ("data", "download", "s3")
GCS: Final = ("data", "download", "gcs")
AZURE: Final = ("data", "download", "azureBlob")

_TOKEN_ELSEWHERE: Final = ("HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH")
"""Other variables that name a token; ``HF_TOKEN`` would win over them."""

_GATEWAY: Final = ("gateway",)
_PARTS: Final[dict[tuple[str, ...], tuple[str, ...] | None]] = {
    ("credentials", "huggingFaceToken"): ("huggingFace",),
    ("credentials", "s3"): S3,
    ("credentials", "gcs"): GCS,
    ("credentials", "azureBlob"): AZURE,
    ("images",): (),
    _GATEWAY: None,
}
"""Parts of a spec, each with what a workload has that needs it; None for what no workload waits for."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A Gateway that routes are attached to."""

    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
    """An AIMNamespaceConfig as it is used.

    Attributes:
        values: what workloads get.
        gateway: None without one, or with one that cannot be used.
        faults: what is malformed, one sentence each.
        unused: what is valid and not used, one sentence each.
    """

    values: DefaultValues
    gateway: Gateway | None
    faults: tuple[str, ...]
    unused: tuple[str, ...]


def default_values(obj: Object) -> DefaultValues:
    """What workloads of the namespace get, from whatever the API server has."""
    return read_config(obj).values


def read_config(obj: Object) -> NamespaceConfig:
    """All of an AIMNamespaceConfig, from whatever the API server has."""
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    specs, faults = _read_parts(obj.get("spec"))
    problems = [
        DefaultsProblem(
            f"AIMNamespaceConfig {name}: {text}. Correct it, then the workload starts by itself", path
        )
        for path, text in faults
        if path is not None
    ]
    unused: list[str] = []
    variables: list[SecretVariable] = []
    credentials: list[ItemCredentials] = []
    pull_secrets: tuple[str, ...] = ()
    gateway: Gateway | None = None
    for spec in specs:
        if given := spec.credentials:
            if token := given.hugging_face_token:
                variables.append(_token(token))
            credentials += _s3(given.s3 or (), unused)
            credentials += _gcs(given.gcs or (), unused)
            credentials += _azure(given.azure_blob or (), unused)
        if spec.images:
            pull_secrets = tuple(dict.fromkeys(spec.images.image_pull_secrets or ()))
        if spec.gateway and spec.gateway.name:
            gateway = Gateway(spec.gateway.name, spec.gateway.namespace or namespace)
        elif spec.gateway:
            unused.append("spec.gateway has no name")
    values = DefaultValues(tuple(variables), pull_secrets, tuple(credentials), tuple(problems))
    return NamespaceConfig(values, gateway, tuple(text for _, text in faults), tuple(unused))


def _read_parts(
    spec: object,
) -> tuple[list[NamespaceConfigSpec], list[tuple[tuple[str, ...] | None, str]]]:
    """The usable parts, each as a spec that has nothing else, and what is wrong with the others."""
    if spec is None:
        return [], []
    if not isinstance(spec, dict):
        return [], [((), "spec is not an object")]
    found: list[NamespaceConfigSpec] = []
    faults: list[tuple[tuple[str, ...] | None, str]] = []
    for part, concerned in _PARTS.items():
        value = _part(spec, part)
        if value is None:
            continue
        try:
            read = NamespaceConfigSpec.model_validate(value, by_alias=True, by_name=False)
        except ValidationError as error:
            first = explain(error, ("spec",))[0]
            faults.append((concerned, f"{first.path}: {first.message}"))
            continue
        if text := _half_pair(read):
            faults.append((concerned, text))
        else:
            found.append(read)
    return found, faults


def _part(spec: Object, path: tuple[str, ...]) -> Object | None:
    """A spec with nothing but one part; None where it is not given."""
    value: object = spec.get(path[0])
    if len(path) > 1 and isinstance(value, dict):
        inner = value.get(path[1])
        return None if inner is None else {path[0]: {path[1]: inner}}
    return None if value is None else {path[0]: value}


def _half_pair(spec: NamespaceConfigSpec) -> str:
    for position, entry in enumerate((spec.credentials.s3 if spec.credentials else None) or ()):
        if (entry.access_key_id is None) != (entry.secret_access_key is None):
            missing = "accessKeyId" if entry.access_key_id is None else "secretAccessKey"
            return f"spec.credentials.s3[{position}].{missing}: is missing; give both keys or none"
    return ""


def _token(value: SecretValue) -> SecretVariable:
    return SecretVariable(
        "HF_TOKEN", value.secret_name, value.secret_key, "huggingFace", replaced_by=_TOKEN_ELSEWHERE
    )


def _reference(value: SecretValue) -> SecretReference:
    return SecretReference(value.secret_name, value.secret_key)


def _s3(entries: Sequence[S3Credential], unused: list[str]) -> Iterator[ItemCredentials]:
    seen: list[tuple[int, str]] = []
    for position, entry in enumerate(entries):
        where, url = f"spec.credentials.s3[{position}]", entry.endpoint_url
        same = next((number for number, other in seen if url and same_server(url, other)), None)
        if not url:
            unused.append(f"{where} has no endpointUrl")
        elif entry.access_key_id is None or entry.secret_access_key is None:
            unused.append(f"{where} has no keys")
        elif same is not None:
            unused.append(f"{where} has the same endpointUrl as s3[{same}]")
        else:
            seen.append((position, url))
            keys = {
                "accessKeyId": _reference(entry.access_key_id),
                "secretKey": _reference(entry.secret_access_key),
            }
            yield ItemCredentials(S3, keys, {"endpointUrl": url})


def _gcs(entries: Sequence[GcsCredential], unused: list[str]) -> Iterator[ItemCredentials]:
    values = [entry.application_credentials for entry in entries]
    yield from _first(GCS, "gcs", "applicationCredentials", values, unused)


def _azure(entries: Sequence[AzureBlobCredential], unused: list[str]) -> Iterator[ItemCredentials]:
    values = [entry.connection_string for entry in entries]
    yield from _first(AZURE, "azureBlob", "connectionString", values, unused)


def _first(
    path: tuple[str, ...], part: str, field: str, values: Sequence[SecretValue | None], unused: list[str]
) -> Iterator[ItemCredentials]:
    """The first of several that an item could not choose from."""
    used: int | None = None
    for position, value in enumerate(values):
        where = f"spec.credentials.{part}[{position}]"
        if value is None:
            unused.append(f"{where} has no {field}")
        elif used is not None:
            unused.append(f"{where} comes after {part}[{used}], and an item cannot choose")
        else:
            used = position
            yield ItemCredentials(path, {field: _reference(value)})
