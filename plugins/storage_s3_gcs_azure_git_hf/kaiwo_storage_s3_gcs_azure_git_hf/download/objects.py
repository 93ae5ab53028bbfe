"""S3, Google Cloud Storage and Azure Blob Storage: their items, turned into files of the engine."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import parse, signing
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError
from kaiwo_storage_s3_gcs_azure_git_hf.download.model import Store
from kaiwo_storage_s3_gcs_azure_git_hf.items import (
    AzureBlobStorageDownloadItem,
    CloudDownloadBucket,
    GCSDownloadItem,
    S3DownloadItem,
    ValueReference,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.headers import Address
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import Session

GCS_URL = "https://storage.googleapis.com"
DEFAULT_REGION = "us-east-1"

_REGION: Final = re.compile(r"(?:^|\.)s3[a-z-]*?[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d+)\.")
"""Where S3 endpoints name their region: AWS's of all kinds (s3.eu-west-1, s3-fips.dualstack.us-east-1,
s3.cn-north-1, bucket.vpce-1a2b-3c4d.s3.us-east-1.vpce), and those of stores that keep its custom."""

_CHECKSUMS: Final = {"x-amz-checksum-mode": "ENABLED"}
_VALID: Final = timedelta(minutes=5)
_AS_STORED: Final = {"accept-encoding": "gzip"}
"""Google Cloud Storage unpacks objects stored with ``Content-Encoding: gzip`` for who does not take gzip:
then neither their size nor their checksum is that of what comes, and there are no ranges."""


def _buckets(
    where: str,
    part: str,
    session: Session,
    buckets: Sequence[CloudDownloadBucket],
    open_store: Callable[[str], Store],
) -> None:
    for index, bucket in enumerate(buckets):
        place = f"{where}.{part}[{index}]"
        try:
            store = open_store(bucket.name)
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - the client's own errors have no common class
            raise ConfigError(
                place, f"{bucket.name} cannot be opened ({type(error).__name__})", "check the credentials"
            ) from None
        for number, file in enumerate(bucket.files or ()):
            digest = file.sha256.lower() if file.sha256 else None
            session.object(f"{place}.files[{number}]", store, file.path, file.target_path, digest)
        for number, folder in enumerate(bucket.folders or ()):
            session.folder(f"{place}.folders[{number}]", store, folder.path, folder.target_path, folder.glob)


def _one_line(where: str, session: Session, reference: ValueReference) -> str:
    """A value that is sent in headers; the object store client would crash with some characters.

    Raises:
        ConfigError: it cannot be sent.
    """
    text = session.secret(where, reference)
    if not text.isascii() or not text.isprintable():
        name = f"key {reference.secret_key} of Secret {reference.secret_name}"
        raise ConfigError(where, f"{name} is not one line of plain text", "store the bare value")
    return text


def s3(items: Sequence[dict[str, Any]], session: Session) -> None:
    """Items of ``data.download.s3``."""
    from obstore.store import S3Store

    for number, raw in enumerate(items):
        where = f"s3[{number}]"
        item = parse.item(where, S3DownloadItem, raw)
        url = item.endpoint_url.rstrip("/")
        client = session.client(where, url)
        config: Any = {"endpoint": url, "region": item.region or _aws_region(url)}
        config["virtual_hosted_style_request"] = False
        if item.access_key_id and item.secret_key:
            config["access_key_id"] = _one_line(where, session, item.access_key_id)
            config["secret_access_key"] = _one_line(where, session, item.secret_key)
        elif not session.config.policy.ambient_credentials:
            config["skip_signature"] = True

        def opened(name: str, client: dict[str, Any] = client, config: Any = config) -> Store:
            remote, place = S3Store(name, config=config, **client), f"{config['endpoint']}/{name}"
            if "access_key_id" in config:
                keys = (config["access_key_id"], config["secret_access_key"])
                address = _checksums(place, signing.signer(*keys, config["region"]))
            elif "skip_signature" in config:
                address = _checksums(place)
            else:
                address = _presigned(remote)
            return Store(remote, place, md5_etag=True, headers=session.headers(address))

        _buckets(where, "buckets", session, item.buckets, opened)


def _checksums(url: str, signed: signing.Signed | None = None) -> Address:
    """HEAD requests that ask S3 for checksums, which it does not give otherwise."""

    def address(key: str) -> tuple[str, Mapping[str, str]]:
        place = f"{url}/{quote(key)}"
        return place, signed("HEAD", place, _CHECKSUMS) if signed else _CHECKSUMS

    return address


def _plain(url: str, query: str = "", headers: Mapping[str, str] | None = None) -> Address:
    """HEAD requests of who needs no signature, or has it in a query."""
    return lambda key: (f"{url}/{quote(key)}{query}", headers or {})


def _presigned(
    remote: Any, method: Literal["HEAD", "GET"] = "HEAD", headers: Mapping[str, str] | None = None
) -> Address:
    """HEAD requests that the object store client signs.

    Args:
        remote: the client.
        method: what is signed. For Azure, where a signature is a permission, the client knows none for HEAD,
            and that of GET includes it.
        headers: what is sent besides, unsigned.
    """
    import obstore

    return lambda key: (obstore.sign(remote, method, key, _VALID), headers or {})


def _aws_region(url: str) -> str:
    """The region in an endpoint's name; stores that name none take any, and us-east-1 is the custom."""
    found = _REGION.search(urlsplit(url).hostname or "")
    return found[1] if found else DEFAULT_REGION


def gcs(items: Sequence[dict[str, Any]], session: Session) -> None:
    """Items of ``data.download.gcs``. ``STORAGE_EMULATOR_HOST`` is honoured as Google's libraries do."""
    from obstore.store import GCSStore

    for number, raw in enumerate(items):
        where = f"gcs[{number}]"
        item = parse.item(where, GCSDownloadItem, raw)
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

        def opened(name: str, url: str = url, client: dict[str, Any] = client, config: Any = config) -> Store:
            remote = GCSStore(name, config=config, **client)
            if "skip_signature" in config:
                address = _plain(f"{url}/{name}", headers=_AS_STORED)
            elif "service_account_key" in config:
                address = _presigned(remote, headers=_AS_STORED)
            else:
                # A pod's identity has no key; Google would have to be asked for each signature.
                return Store(remote, f"gs://{name}")
            return Store(remote, f"gs://{name}", headers=session.headers(address))

        _buckets(where, "buckets", session, item.buckets, opened)


def _service_account(where: str, text: str) -> str:
    """A service account's key, with nothing in it that sends requests elsewhere."""
    try:
        key = json.loads(text)
    except ValueError:
        key = None
    if not isinstance(key, dict) or not {"client_email", "private_key"} <= key.keys():
        raise ConfigError(
            where,
            "applicationCredentials is no JSON key of a service account",
            "store the key file that Google gave out",
        )
    kept = ("type", "client_email", "private_key", "private_key_id", "project_id")
    return json.dumps({"private_key_id": "", **{name: key[name] for name in kept if name in key}})


def azure_blob(items: Sequence[dict[str, Any]], session: Session) -> None:
    """Items of ``data.download.azureBlob``."""
    from obstore.store import AzureStore

    for number, raw in enumerate(items):
        where = f"azureBlob[{number}]"
        item = parse.item(where, AzureBlobStorageDownloadItem, raw)
        config = _azure(where, _one_line(where, session, item.connection_string))
        client = session.client(where, config["endpoint"])

        def opened(name: str, client: dict[str, Any] = client, config: Any = config) -> Store:
            remote = AzureStore(name, config=config, **client)
            url = f"{config['endpoint']}/{name}"
            signed = "account_key" in config
            address = _presigned(remote, "GET") if signed else _plain(url, f"?{config['sas_key']}")
            return Store(remote, url, headers=session.headers(address))

        _buckets(where, "containers", session, item.containers, opened)


def _azure(where: str, text: str) -> dict[str, Any]:
    """An Azure connection string as the client's configuration.

    Raises:
        ConfigError: it has no account, or nothing to sign with.
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
            "connectionString has no AccountName with AccountKey, or BlobEndpoint with SharedAccessSignature",
            "copy it from the storage account's access keys",
        )
    config: dict[str, Any] = {"account_name": account, "endpoint": endpoint.rstrip("/")}
    if given.get("accountkey"):
        config["account_key"] = given["accountkey"]
    else:
        config["sas_key"] = given["sharedaccesssignature"].lstrip("?")
    return config
