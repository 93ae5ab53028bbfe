"""Requests to S3 that are signed by AWS's own library.

The object store client signs its own requests; this is for the header that it cannot send. Amazon S3 refuses
``x-amz-*`` headers that are not part of the signature, so signing a URL beforehand is not enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Signed: TypeAlias = "Callable[[str, str, Mapping[str, str]], dict[str, str]]"
"""From method, URL and headers of a request without content to all headers that it needs."""


def signer(access_key_id: str, secret_access_key: str, region: str) -> Signed:
    """What signs requests (AWS Signature Version 4).

    Args:
        access_key_id: who signs.
        secret_access_key: with what; nothing that is returned shows it.
        region: of the store.

    Raises:
        RuntimeError: the keys cannot be used.
    """
    # Only the download container has it, and only who has keys needs it.
    from awscrt import auth, http  # type: ignore[import-untyped]

    provider = auth.AwsCredentialsProvider.new_static(access_key_id, secret_access_key)

    def signed(method: str, url: str, headers: Mapping[str, str]) -> dict[str, str]:
        place = urlsplit(url)
        request = http.HttpRequest(
            method, place.path or "/", http.HttpHeaders([("host", place.netloc), *headers.items()])
        )
        # S3 alone takes a path as it is written: it is quoted once, and "a//b" is another object than "a/b".
        config = auth.AwsSigningConfig(
            algorithm=auth.AwsSigningAlgorithm.V4,
            signature_type=auth.AwsSignatureType.HTTP_REQUEST_HEADERS,
            credentials_provider=provider,
            region=region,
            service="s3",
            use_double_uri_encode=False,
            should_normalize_uri_path=False,
            signed_body_value=auth.AwsSignedBodyValue.EMPTY_SHA256,
            signed_body_header_type=auth.AwsSignedBodyHeaderType.X_AMZ_CONTENT_SHA_256,
        )
        return dict(auth.aws_sign_request(request, config).result().headers)

    return signed
