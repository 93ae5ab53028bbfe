"""S3, Google Cloud Storage and Azure Blob Storage: turns their items into files of the transfer."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlsplit

from kaiwo.plugin.kit.downloads import parse_items
from kaiwo_storage_s3_gcs_azure_git_hf.download import s3_endpoints, signing
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError
from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectStore
from kaiwo_storage_s3_gcs_azure_git_hf.items import (
    AzureBlobStorageDownloadItem,
    CloudDownloadBucket,
    GCSDownloadItem,
    S3DownloadItem,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo.plugin.kit.fields import ValueReference
    from kaiwo_storage_s3_gcs_azure_git_hf.download.object_headers import HeadRequest
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import DownloadSession

GCS_URL = "https://storage.googleapis.com"

_CHECKSUMS: Final = {"x-amz-checksum-mode": "ENABLED"}
_PRESIGNED_VALIDITY: Final = timedelta(minutes=5)
_AS_STORED: Final = {"accept-encoding": "gzip"}
"""Google Cloud Storage decompresses objects stored with ``Content-Encoding: gzip`` for clients that do not
accept gzip. Then size and checksum are not those of the response, and there are no ranges."""


def _add_buckets(
    where: str,
    field: str,
    session: DownloadSession,
    buckets: Sequence[CloudDownloadBucket],
    open_store: Callable[[str], ObjectStore],
) -> None:
    for index, bucket in enumerate(buckets):
        place = f"{where}.{field}[{index}]"
        try:
            store = open_store(bucket.name)
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - the client's own errors have no common class
            raise ConfigError(
                place, f"cannot open {bucket.name} ({type(error).__name__})", "check the credentials"
            ) from None
        for number, file in enumerate(bucket.files or ()):
            digest = file.sha256.lower() if file.sha256 else None
            session.object(f"{place}.files[{number}]", store, file.path, file.target_path, digest)
        for number, folder in enumerate(bucket.folders or ()):
            session.folder(f"{place}.folders[{number}]", store, folder.path, folder.target_path, folder.glob)


def _header_value(where: str, session: DownloadSession, reference: ValueReference) -> str:
    """Read a value that is sent in headers; the object store client would crash with some characters.

    Raises:
        ConfigError: it cannot be sent.
    """
    text = session.secret(where, reference)
    if not text.isascii() or not text.isprintable():
        name = f"key {reference.secret_key} of Secret {reference.secret_name}"
        raise ConfigError(where, f"{name} is not one line of ASCII text", "store the bare value")
    return text


def s3(items: Sequence[dict[str, Any]], session: DownloadSession) -> None:
    """Add the items of ``data.download.s3`` to a session."""
    from obstore.store import S3Store

    for where, item in parse_items("s3", S3DownloadItem, items):
        url = item.endpoint_url.rstrip("/")
        client = session.client(where, url)
        config: Any = {"endpoint": url, "region": item.region or s3_endpoints.region(url)}
        if item.access_key_id and item.secret_key:
            config["access_key_id"] = _header_value(where, session, item.access_key_id)
            config["secret_access_key"] = _header_value(where, session, item.secret_key)
        elif not session.config.policy.ambient_credentials:
            config["skip_signature"] = True

        md5_etag = s3_endpoints.has_md5_etags(url)

        def open_store(
            name: str, client: dict[str, Any] = client, config: Any = config, md5_etag: bool = md5_etag
        ) -> ObjectStore:
            place, in_host = s3_endpoints.bucket_url(config["endpoint"], name)
            whole: Any = {**config, "virtual_hosted_style_request": in_host}
            if in_host:
                whole["endpoint"] = place
            remote = S3Store(name, config=whole, **client)
            if "access_key_id" in config:
                keys = (config["access_key_id"], config["secret_access_key"])
                head_request = _checksum_request(place, signing.request_signer(*keys, config["region"]))
            elif "skip_signature" in config:
                head_request = _checksum_request(place)
            else:
                head_request = _presigned_request(remote)
            return ObjectStore(remote, place, md5_etag=md5_etag, headers=session.headers(head_request))

        _add_buckets(where, "buckets", session, item.buckets, open_store)


def _checksum_request(url: str, sign: signing.RequestSigner | None = None) -> HeadRequest:
    """HEAD requests for checksums, which S3 gives only on request."""

    def head_request(key: str) -> tuple[str, Mapping[str, str]]:
        place = f"{url}/{quote(key)}"
        return place, sign("HEAD", place, _CHECKSUMS) if sign else _CHECKSUMS

    return head_request


def _plain_request(url: str, query: str = "", headers: Mapping[str, str] | None = None) -> HeadRequest:
    """HEAD requests that need no signature, or have it in the query."""
    return lambda key: (f"{url}/{quote(key)}{query}", headers or {})


def _presigned_request(
    remote: Any, method: Literal["HEAD", "GET"] = "HEAD", headers: Mapping[str, str] | None = None
) -> HeadRequest:
    """HEAD requests that the object store client signs.

    Args:
        remote: the client.
        method: the method that is signed. In Azure a signature is a permission; the client has none for HEAD,
            and the one for GET includes it.
        headers: other headers, which are not signed.
    """
    import obstore

    return lambda key: (obstore.sign(remote, method, key, _PRESIGNED_VALIDITY), headers or {})


def gcs(items: Sequence[dict[str, Any]], session: DownloadSession) -> None:
    """Add the items of ``data.download.gcs`` to a session.

    ``STORAGE_EMULATOR_HOST`` is honoured as in Google's libraries.
    """
    from obstore.store import GCSStore

    for where, item in parse_items("gcs", GCSDownloadItem, items):
        url = os.environ.get("STORAGE_EMULATOR_HOST", GCS_URL).rstrip("/")
        config: dict[str, Any] = {"base_url": url}
        if item.application_credentials:
            config["service_account_key"] = _service_account(
                where, session.secret(where, item.application_credentials)
            )
        elif not session.config.policy.ambient_credentials:
            config["skip_signature"] = True
        client = session.client(where, url)
        client["client_options"]["default_headers"] = _AS_STORED

        def open_store(
            name: str, url: str = url, client: dict[str, Any] = client, config: Any = config
        ) -> ObjectStore:
            remote = GCSStore(name, config=config, **client)
            if "skip_signature" in config:
                head_request = _plain_request(f"{url}/{name}", headers=_AS_STORED)
            elif "service_account_key" in config:
                head_request = _presigned_request(remote, headers=_AS_STORED)
            else:
                # A pod identity has no key; each signature would need a request to Google.
                return ObjectStore(remote, f"gs://{name}")
            return ObjectStore(remote, f"gs://{name}", headers=session.headers(head_request))

        _add_buckets(where, "buckets", session, item.buckets, open_store)


def _service_account(where: str, text: str) -> str:
    """The key of a service account, without fields that redirect requests."""
    try:
        key = json.loads(text)
    except ValueError:
        key = None
    if not isinstance(key, dict) or not {"client_email", "private_key"} <= key.keys():
        raise ConfigError(
            where,
            "applicationCredentials is not a JSON key of a service account",
            "store the key file that Google issued",
        )
    kept = ("type", "client_email", "private_key", "private_key_id", "project_id")
    return json.dumps({"private_key_id": "", **{name: key[name] for name in kept if name in key}})


def azure_blob(items: Sequence[dict[str, Any]], session: DownloadSession) -> None:
    """Add the items of ``data.download.azureBlob`` to a session."""
    from obstore.store import AzureStore

    for where, item in parse_items("azureBlob", AzureBlobStorageDownloadItem, items):
        if item.connection_string is None:
            raise ConfigError(where, "connectionString is missing", "name a Secret with it")
        config = _parse_connection_string(where, _header_value(where, session, item.connection_string))
        client = session.client(where, config["endpoint"])

        def open_store(name: str, client: dict[str, Any] = client, config: Any = config) -> ObjectStore:
            remote = AzureStore(name, config=config, **client)
            url = f"{config['endpoint']}/{name}"
            signed = "account_key" in config
            head_request = (
                _presigned_request(remote, "GET") if signed else _plain_request(url, f"?{config['sas_key']}")
            )
            return ObjectStore(remote, url, headers=session.headers(head_request))

        _add_buckets(where, "containers", session, item.containers, open_store)


def _parse_connection_string(where: str, text: str) -> dict[str, Any]:
    """Parse an Azure connection string to the configuration of the client.

    Raises:
        ConfigError: it has no account, or no key or signature.
    """
    pairs = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    given = {name.strip().lower(): value.strip() for name, value in pairs.items()}
    account = given.get("accountname", "")
    scheme = given.get("defaultendpointsprotocol", "https")
    suffix = given.get("endpointsuffix", "core.windows.net")
    endpoint = given.get("blobendpoint") or (account and f"{scheme}://{account}.blob.{suffix}")
    place = urlsplit(endpoint or "")
    account = account or (place.hostname or "").partition(".")[0]
    signed = given.get("accountkey") or given.get("sharedaccesssignature")
    if not account or not signed or place.scheme not in ("http", "https"):
        raise ConfigError(
            where,
            "connectionString needs AccountName and AccountKey, or BlobEndpoint and SharedAccessSignature",
            "copy it from the access keys of the storage account",
        )
    config: dict[str, Any] = {"account_name": account, "endpoint": endpoint.rstrip("/")}
    if given.get("accountkey"):
        config["account_key"] = given["accountkey"]
    else:
        config["sas_key"] = given["sharedaccesssignature"].lstrip("?")
    return config
