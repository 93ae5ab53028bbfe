"""Permanent errors of stores, each reported with the step that helps."""

from __future__ import annotations

import gzip
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download import s3_endpoints
from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = b"hello " * 100_000


def answers(status: int, code: str = "", **headers: str) -> Callable[[Any], bool]:
    """A fault: an answer with an error's code in its body."""

    def fault(handler: Any) -> bool:
        handler.reply(status, f"<Error><Code>{code}</Code></Error>".encode() if code else b"", **headers)
        return True

    return fault


def when_read(fault: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A fault of GET requests alone; answers to HEAD have no body with a code."""
    return lambda handler: handler.command == "GET" and fault(handler)


def without_length(handler: Any) -> bool:
    """An answer that ends with its connection."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True
    return True


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (answers(301), 2, ("another region", "set region")),
        (when_read(answers(400, "AuthorizationHeaderMalformed")), 2, ("another region", "region")),
        (answers(403), 3, ("HTTP 403", "check that it exists")),
        (answers(400), 3, ("HTTP 400", "check region and endpoint")),
        (when_read(answers(403, "InvalidObjectState")), 3, ("archived", "restore it")),
        (when_read(answers(409, "BlobArchived")), 3, ("archived", "rehydrate")),
        (when_read(answers(403, "RequestTimeTooSkewed")), 3, ("clock", "set the clock")),
        (answers(307, Location="/bucket/a"), 3, ("redirects in a loop",)),
        (without_length, 3, ("does not report the size",)),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
def test_what_stays_is_reported_at_once_with_its_cause(
    download: Any, objects: Any, fault: Callable[[Any], bool], code: int, words: tuple[str, ...]
) -> None:
    """No minutes of retries for an answer that will be the same."""
    download.limits["retrySeconds"] = 600
    objects.content = {"a": b"1"}
    objects.faults["a"] = fault
    download.assert_failed(download(download.one(objects.url)), code, "s3[0].buckets[0].files[0]", *words)
    assert len(objects.requests) <= 12  # redirects


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (
            400,
            "<Code>InvalidArgument</Code><Message>Access key has length 20, should be 32</Message>",
            3,
            ("HTTP 400 InvalidArgument: Access key has length 20, should be 32",),
        ),
        (
            403,
            "<Code>AccessDenied</Code><Message>bandwidth cap exceeded\nsee Caps &amp; more</Message>",
            3,
            ("access denied (HTTP 403 AccessDenied: bandwidth cap exceeded see Caps & more)",),
        ),
        (
            403,
            "<Code>SignatureDoesNotMatch</Code><Message>does not match</Message>",
            3,
            ("HTTP 403 SignatureDoesNotMatch", "check region"),
        ),
        (409, "<Code>AccountIsDisabled</Code>", 3, ("request refused (HTTP 409 AccountIsDisabled)",)),
        (503, "<Code>SlowDown</Code><Message>Reduce</Message>", 6, ("HTTP 503 SlowDown: Reduce",)),
    ],
)
def test_the_words_of_a_store_are_in_the_message(
    download: Any, objects: Any, status: int, body: str, code: int, words: tuple[str, ...]
) -> None:
    """A status has many causes; other clients show what the store writes of it."""
    objects.content = {"a": b"1"}

    def fault(handler: Any) -> bool:
        secret = "<StringToSign>CANARY</StringToSign>"
        handler.reply(status, f"<?xml version='1.0'?><Error>{body}{secret}</Error>".encode())
        return True

    objects.faults[""] = fault
    outcome = download(download.s3(objects.url, folders=[{"path": ".", "targetPath": "."}]))
    download.assert_failed(outcome, code, "s3[0].buckets[0].folders[0]", *words)


def test_a_web_site_is_no_object_store(download: Any, objects: Any) -> None:
    """A wrong endpoint that answers every request is reported as such."""
    download.limits["retrySeconds"] = 600
    objects.content = {"site/bucket": b"<!doctype html><html><br>sign in"}
    outcome = download(download.s3(f"{objects.url}/bucket/site", folders=[{"path": ".", "targetPath": "."}]))
    download.assert_failed(outcome, 2, "not one of an object store", "check the endpoint")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:99999",
        "http://127.0.0.1:x",
        "http://[::1",
        "http://127.0.0.1:1?a=b",
        "http://127.0.0.1:1/#a",
        "http://a^b",
        "http://ü.example.com",
        "http://:9000",
        "http://127.0.0.1:1/ü",
        "http://127.0.0.1:1/a^b",
        "http://127.0.0.1:1/100%",
    ],
)
def test_a_text_that_is_no_endpoint_is_refused(download: Any, url: str) -> None:
    """Exit 2, whatever the client would make of it."""
    download.assert_failed(download(download.one(url)), 2, "s3[0]", "correct")


def test_credentials_in_an_endpoint_are_refused_and_not_repeated(download: Any, objects: Any) -> None:
    """They would be seen by everybody who may read the workload."""
    outcome = download(download.one(objects.url.replace("//", "//me:CANARY@")))
    download.assert_failed(outcome, 2, "s3[0]", "credentials", "Secret")
    assert "CANARY" not in outcome.err + outcome.out


@pytest.fixture
def untrusted(objects: Any, certificate: Any) -> str:
    """URL of the bucket's server behind TLS, with a certificate of an issuer that nobody knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    objects.server.socket = context.wrap_socket(objects.server.socket, server_side=True)
    return str(objects.url.replace("http://", "https://"))


def test_a_certificate_that_is_not_trusted_is_reported(download: Any, untrusted: str) -> None:
    """At once, and names where certificates are read from."""
    download.limits["retrySeconds"] = 600
    outcome = download(download.one(untrusted))
    download.assert_failed(outcome, 2, "certificate is not trusted", "SSL_CERT_FILE")


def test_git_trusts_what_the_other_clients_trust(
    download: Any, untrusted: str, certificate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows another variable; where nothing is trusted the cause is reported at once."""
    download.limits["retrySeconds"] = 600
    items = {"git": [{"repository": f"{untrusted}/bucket/x.git", "targetPath": "x"}]}
    download.assert_failed(download(items), 2, "certificate is not trusted", "SSL_CERT_FILE")
    monkeypatch.delenv("GIT_SSL_CAINFO", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    download.assert_failed(download(items), 3, "repository not found")


def test_a_server_without_tls_is_reported(download: Any, objects: Any) -> None:
    """An https URL for a server of plain http."""
    download.limits["retrySeconds"] = 600
    outcome = download(download.one(objects.url.replace("http://", "https://")))
    download.assert_failed(outcome, 2, "does not support TLS", "http://")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("s3.us-east-2.amazonaws.com", "us-east-2"),
        ("s3-us-west-2.amazonaws.com", "us-west-2"),
        ("s3.dualstack.eu-west-1.amazonaws.com", "eu-west-1"),
        ("s3-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("bucket.vpce-1a2b-3c4d.s3.us-east-2.vpce.amazonaws.com", "us-east-2"),
        ("s3.us-west-004.backblazeb2.com", "us-west-004"),
        ("s3.amazonaws.com", "us-east-1"),
        ("minio.storage.svc:9000", "us-east-1"),
    ],
)
def test_the_region_is_read_from_every_kind_of_endpoint(host: str, region: str) -> None:
    """Who writes a region into the URL need not write it again."""
    assert s3_endpoints.region(f"https://{host}") == region


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://oss-cn-hangzhou.aliyuncs.com", "https://models.oss-cn-hangzhou.aliyuncs.com"),
        ("https://models.oss-us-west-1.aliyuncs.com", "https://models.oss-us-west-1.aliyuncs.com"),
        ("https://cos.ap-tokyo.myqcloud.com:443", "https://models.cos.ap-tokyo.myqcloud.com:443"),
        ("https://s3.us-east-1.amazonaws.com", "https://s3.us-east-1.amazonaws.com/models"),
        ("http://minio:9000/base", "http://minio:9000/base/models"),
        ("https://oss-cn-x.aliyuncs.com.evil.com", "https://oss-cn-x.aliyuncs.com.evil.com/models"),
    ],
)
def test_the_bucket_is_in_the_host_where_the_store_wants_it(url: str, expected: str) -> None:
    """Some refuse it in the path; everywhere else it is there, which needs no name for each bucket."""
    place, in_host = s3_endpoints.bucket_url(url, "models")
    assert place == expected
    assert in_host is not expected.endswith("/models")


def test_a_store_with_the_bucket_in_its_host(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists, objects and the requests for checksums go there, signed for that host."""
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "bucket.oss-test.localhost" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    register = EgressProxy.register_endpoint

    def registered(self: EgressProxy, url: str) -> str | None:
        self._loopback.add("bucket.oss-test.localhost")
        return register(self, url)

    monkeypatch.setattr(EgressProxy, "register_endpoint", registered)
    monkeypatch.setattr(s3_endpoints, "_BUCKET_IN_HOST", re.compile(r"oss-test\.localhost"))
    # The server takes the first name of the path for its bucket, and the bucket itself for a folder.
    objects.bucket, objects.content = "x", {"a": PLAIN * 3}
    item = download.s3(
        f"http://oss-test.localhost:{objects.port}", files=[{"path": "x/a", "targetPath": "a"}]
    )["s3"][0]
    item["accessKeyId"] = download.secret("id", "ID")
    item["secretKey"] = download.secret("key", "CANARYKEY")
    outcome = download({"s3": [item]})
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a": PLAIN * 3}
    assert objects.requests
    hosts = {headers.get("Host", headers.get("host")) for _, _, headers in objects.requests}
    assert hosts == {f"bucket.oss-test.localhost:{objects.port}"}
    assert any("x-amz-checksum-mode" in headers for _, _, headers in objects.requests)


def test_etags_that_resemble_checksums_are_not_compared() -> None:
    """Every download from such a store would fail with exit 4."""
    assert not s3_endpoints.has_md5_etags("https://us-east.object.fastlystorage.app")
    assert s3_endpoints.has_md5_etags("https://s3.us-east-1.amazonaws.com")


@pytest.mark.parametrize("how", ["files", "folders"])
def test_gcs_objects_stored_compressed_come_as_they_are_stored(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Unpacked by the store they would be longer than their size, of unknown checksum and without ranges."""
    body = gzip.compress(PLAIN) + bytes(200_000)

    def transcoded(handler: Any) -> bool:
        if "gzip" in handler.headers.get("Accept-Encoding", ""):
            return False
        without_length(handler)
        if handler.command == "GET":
            handler.wfile.write(PLAIN)
        return True

    objects.goog, objects.content, objects.faults = True, {"a": body}, {"a": transcoded}
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", objects.url)
    wanted = {"path": "a" if how == "files" else ".", "targetPath": "a" if how == "files" else "."}
    outcome = download({"gcs": [{"buckets": [{"name": "bucket", how: [wanted]}]}]})
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a": body}


def test_a_weak_etag_is_no_obstacle_and_a_change_is_seen(download: Any, objects: Any) -> None:
    """It never matches in a condition, so it is compared with that of each answer."""
    objects.content = {"a": PLAIN}
    objects.etags["a"] = 'W/"1"'

    def strict(handler: Any) -> bool:
        if handler.headers.get("If-Match", "").startswith("W/"):
            handler.reply(412)
            return True
        return False

    def changing(handler: Any) -> bool:
        if handler.command == "GET":
            objects.etags["a"] = 'W/"2"'
        return False

    objects.faults["a"] = changing
    download.assert_failed(download(download.one(objects.url)), 4, "changed during the download")
    objects.faults["a"] = strict
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": PLAIN}
