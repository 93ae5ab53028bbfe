from __future__ import annotations

import base64
import hashlib
import json
import urllib.parse
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from obstore.store import AzureStore

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = bytes(range(256)) * 1024


@pytest.fixture
def gcs(objects: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The XML interface of Google Cloud Storage: ETags that are no MD5, x-goog-hash headers."""
    objects.goog = True
    objects.content = {"m/a b": BODY, "m/d/ü": b"x", "other": b"o"}
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", objects.url)
    return objects


ITEM: dict[str, Any] = {
    "buckets": [
        {
            "name": "bucket",
            "files": [{"path": "other", "targetPath": "o"}],
            "folders": [{"path": "m", "targetPath": "m"}],
        }
    ]
}
EXPECTED = {"m/a b": BODY, "m/d/ü": b"x", "o": b"o"}


def _service_account() -> tuple[str, Callable[[dict[str, str]], bool]]:
    """A service account's key, and a server's check of what it signs."""
    private = rsa.generate_private_key(65537, 2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = {
        "type": "service_account",
        "client_email": "canary@project.iam.gserviceaccount.com",
        "private_key": pem.decode(),
        "private_key_id": "CANARYID",
        "gcs_base_url": "http://169.254.169.254",
    }

    def signed(path: str) -> bool:
        """Whether a URL is signed for a HEAD request, version 4 of Google's signatures."""
        place, _, query = path.partition("?")
        fields, _, signature = query.partition("&X-Goog-Signature=")
        given = urllib.parse.parse_qs(fields)
        scope = given["X-Goog-Credential"][0].partition("/")[2]
        asked = f"HEAD\n{place}\n{fields}\nhost:storage.googleapis.com\n\nhost\nUNSIGNED-PAYLOAD"
        digest = hashlib.sha256(asked.encode()).hexdigest()
        text = f"GOOG4-RSA-SHA256\n{given['X-Goog-Date'][0]}\n{scope}\n{digest}"
        private.public_key().verify(
            bytes.fromhex(signature), text.encode(), padding.PKCS1v15(), hashes.SHA256()
        )
        return True

    def allowed(headers: dict[str, str]) -> bool:
        given = {name.lower(): value for name, value in headers.items()}
        if "X-Goog-Signature" in given[":path"]:
            return signed(given[":path"])
        head, _, signature = given.get("authorization", "").removeprefix("Bearer ").rpartition(".")
        try:
            private.public_key().verify(
                base64.urlsafe_b64decode(signature + "=="), head.encode(), padding.PKCS1v15(), hashes.SHA256()
            )
        except Exception:  # noqa: BLE001 - any flaw of the signature means no
            return False
        return True

    return json.dumps(key), allowed


def test_gcs_without_credentials_is_read_unsigned(download: Any, gcs: Any) -> None:
    """Without credentials requests are unsigned, and content is checked with x-goog-hash."""
    outcome = download({"gcs": [ITEM]})
    assert outcome.code == 0, outcome.err
    assert download.files() == EXPECTED
    assert all("authorization" not in {k.lower() for k in headers} for _, _, headers in gcs.requests)


def test_gcs_with_a_service_account(download: Any, gcs: Any) -> None:
    """The token is signed with the account's key; nothing in the key sends requests elsewhere."""
    text, gcs.allowed = _service_account()
    item = {**ITEM, "applicationCredentials": download.secret("gcs", text)}
    outcome = download({"gcs": [item]})
    assert outcome.code == 0, outcome.err
    assert download.files() == EXPECTED


def test_gcs_content_of_a_private_bucket_is_checked_too(download: Any, gcs: Any) -> None:
    """The checksum is asked for with a signed URL."""
    text, gcs.allowed = _service_account()
    gcs.content = {"other": b"o"}
    gcs.headers = lambda _: {"x-goog-hash": "crc32c=AAAAAA=="}
    bucket = {"name": "bucket", "files": ITEM["buckets"][0]["files"]}
    item = {"applicationCredentials": download.secret("gcs", text), "buckets": [bucket]}
    outcome = download({"gcs": [item]})
    assert outcome.code == 4, outcome.err
    assert "expected crc32c 00000000 (x-goog-hash)" in outcome.line
    assert download.files() == {}


def test_gcs_content_that_is_not_what_the_header_says_fails(download: Any, gcs: Any) -> None:
    """Exit 4, and no file."""
    gcs.content = {"other": b"o"}
    gcs.headers = lambda _: {"x-goog-hash": "crc32c=AAAAAA==,md5=" + base64.b64encode(bytes(16)).decode()}
    outcome = download({"gcs": [{"buckets": [{"name": "bucket", "files": ITEM["buckets"][0]["files"]}]}]})
    assert outcome.code == 4, outcome.err
    assert "x-goog-hash" in outcome.line
    assert download.files() == {}


@pytest.mark.parametrize(("value", "code"), [("4waSgw==", 0), ("4waShA==", 4)])
def test_gcs_composed_objects_are_checked_by_crc32c(download: Any, gcs: Any, value: str, code: int) -> None:
    """They have no MD5. The right value is the check value of the CRC catalogue."""
    gcs.content = {"other": b"123456789"}
    gcs.headers = lambda _: {"x-goog-hash": f"crc32c={value}"}
    outcome = download({"gcs": [{"buckets": [{"name": "bucket", "files": ITEM["buckets"][0]["files"]}]}]})
    assert outcome.code == code, outcome.err
    assert download.files() == ({} if code else {"o": b"123456789"})
    assert "crc32c" in outcome.line or not code


@pytest.mark.usefixtures("gcs")
def test_gcs_credentials_that_are_no_key_are_named(download: Any) -> None:
    """Exit 2 without their text."""
    item = {**ITEM, "applicationCredentials": download.secret("gcs", "CANARY not json")}
    outcome = download({"gcs": [item]})
    assert outcome.code == 2
    assert "applicationCredentials" in outcome.line
    assert "CANARY" not in outcome.err


KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The well-known key of azurite's only account."""


def _connection(url: str, key: str = KEY) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={key};BlobEndpoint={url};"


@pytest.fixture
def container(azurite: str) -> str:
    """A container with blobs."""
    name = "c" + hashlib.sha256(azurite.encode()).hexdigest()[:8]
    store = AzureStore(
        name,
        account_name="devstoreaccount1",
        account_key=KEY,
        endpoint=azurite,
        client_options={"allow_http": True},
    )
    _create(azurite, name)
    for key, body in {"m/a b": BODY, "m/d/ü": b"x", "other": b"o"}.items():
        obstore.put(store, key, body)
    return name


def _create(url: str, name: str) -> None:
    """Create a container: obstore cannot, but signs the request."""
    import email.utils
    import hmac
    import urllib.error
    import urllib.request

    date = email.utils.formatdate(usegmt=True)
    canonical = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/devstoreaccount1/devstoreaccount1/{name}"
    text = "PUT\n\n\n\n\n\n\n\n\n\n\n\n" + canonical + "\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()
    request = urllib.request.Request(
        f"{url}/{name}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
            "Authorization": f"SharedKey devstoreaccount1:{signature}",
        },
    )
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as error:
        assert error.code == 409, error.read()  # noqa: PT017 - it is there from the test before


def _azure(download: Any, container: str, connection: str) -> dict[str, Any]:
    bucket = {**ITEM["buckets"][0], "name": container}
    return {"azureBlob": [{"connectionString": download.secret("az", connection), "containers": [bucket]}]}


@pytest.mark.slow
def test_azure_with_an_account_key(download: Any, azurite: str, container: str) -> None:
    """Files and folders of a real server of the Blob interface."""
    outcome = download(_azure(download, container, _connection(azurite)))
    assert outcome.code == 0, outcome.err
    assert download.files() == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("how", ["account key", "shared access signature"])
@pytest.mark.parametrize("right", [True, False])
def test_azure_content_is_checked(download: Any, azurite: str, container: str, how: str, right: bool) -> None:
    """With the MD5 that Azure keeps; who may only read one blob may ask for it too."""
    import urllib.request

    config: Any = {"account_name": "devstoreaccount1", "account_key": KEY, "endpoint": azurite}
    store = AzureStore(container, config=config, client_options={"allow_http": True})
    store.put("checked", BODY)
    if not right:
        signed = obstore.sign(store, "PUT", "checked", timedelta(minutes=5))
        wrong = base64.b64encode(bytes(16)).decode()
        headers = {"x-ms-version": "2021-08-06", "x-ms-blob-content-md5": wrong}
        request = urllib.request.Request(f"{signed}&comp=properties", method="PUT", headers=headers)
        urllib.request.urlopen(request, data=b"").close()
    connection = _connection(azurite)
    if how == "shared access signature":
        query = obstore.sign(store, "GET", "checked", timedelta(minutes=5)).partition("?")[2]
        connection = f"AccountName=devstoreaccount1;BlobEndpoint={azurite};SharedAccessSignature={query}"
    bucket = {"name": container, "files": [{"path": "checked", "targetPath": "c"}]}
    item = {"connectionString": download.secret("az", connection), "containers": [bucket]}
    outcome = download({"azureBlob": [item]})
    assert outcome.code == (0 if right else 4), outcome.err
    assert download.files() == ({"c": BODY} if right else {})
    assert right or f"expected md5 {'0' * 32} (Content-MD5)" in outcome.line
    assert "sig=" not in outcome.err


@pytest.mark.slow
def test_azure_folders_of_a_hierarchical_namespace_are_no_files(
    download: Any, azurite: str, container: str
) -> None:
    """They are listed as empty blobs; one that is named as a file is no empty file either."""
    config: Any = {"account_name": "devstoreaccount1", "account_key": KEY, "endpoint": azurite}
    store = AzureStore(container, config=config, client_options={"allow_http": True})
    folder = {"hdi_isfolder": "true"}
    store.put("tree/empty", b"", attributes=folder)
    store.put("tree/full", b"", attributes=folder)
    store.put("tree/full/x", b"1")
    store.put("tree/none", b"")
    secret = download.secret("az", _connection(azurite))
    bucket = {"name": container, "folders": [{"path": "tree", "targetPath": "t"}]}
    outcome = download({"azureBlob": [{"connectionString": secret, "containers": [bucket]}]})
    assert outcome.code == 0, outcome.err
    assert download.files() == {"t/full/x": b"1", "t/none": b""}
    bucket = {"name": container, "files": [{"path": "tree/full", "targetPath": "f"}]}
    outcome = download({"azureBlob": [{"connectionString": secret, "containers": [bucket]}]})
    assert outcome.code == 2, outcome.err
    assert "tree/full is a folder; name it in folders" in outcome.line


@pytest.mark.slow
def test_azure_with_a_wrong_key_is_refused(download: Any, azurite: str, container: str) -> None:
    """Exit 3, and the key is in no output."""
    wrong = base64.b64encode(b"CANARY").decode()
    outcome = download(_azure(download, container, _connection(azurite, wrong)))
    assert outcome.code == 3, outcome.err
    assert "azureBlob[0]" in outcome.line
    assert wrong not in outcome.err


@pytest.mark.slow
def test_azure_without_the_container_is_not_found(download: Any, azurite: str) -> None:
    """Exit 3 with the container's name."""
    outcome = download(_azure(download, "missing", _connection(azurite)))
    assert outcome.code == 3, outcome.err
    assert "missing" in outcome.line


@pytest.mark.parametrize("text", ["CANARY", "AccountName=a", "AccountKey=CANARY", ";;=;"])
def test_azure_connection_strings_that_cannot_be_used_are_refused(download: Any, text: str) -> None:
    """Exit 2, without their text."""
    outcome = download(_azure(download, "c", text))
    assert outcome.code == 2, outcome.err
    assert "connectionString" in outcome.line
    assert "CANARY" not in outcome.err


def test_azure_without_a_connection_string_is_refused_by_name(download: Any) -> None:
    """Exit 2: neither the item nor the namespace has one."""
    containers = [{"name": "c", "files": [{"path": "a", "targetPath": "a"}]}]
    outcome = download({"azureBlob": [{"containers": containers}]})
    download.assert_failed(outcome, 2, "azureBlob[0]", "connectionString is missing")
