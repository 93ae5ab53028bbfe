"""Signs requests to S3 with the AWS library.

The object store client signs its own requests; this is for a header that it cannot send. Amazon S3 refuses
``x-amz-*`` headers that are not part of the signature, so a presigned URL is not enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RequestSigner: TypeAlias = "Callable[[str, str, Mapping[str, str]], dict[str, str]]"
"""Takes method, URL and headers of a request without content; returns all headers that it needs."""


def request_signer(access_key_id: str, secret_access_key: str, region: str) -> RequestSigner:
    """A function that signs requests (AWS Signature Version 4).

    Args:
        access_key_id: ID of the key.
        secret_access_key: the key; nothing that is returned shows it.
        region: region of the store.

    Raises:
        RuntimeError: the key cannot be used.
    """
    # Only the download container has it, and only items with keys need it.
    from awscrt import auth, http  # type: ignore[import-untyped]

    provider = auth.AwsCredentialsProvider.new_static(access_key_id, secret_access_key)

    def sign(method: str, url: str, headers: Mapping[str, str]) -> dict[str, str]:
        place = urlsplit(url)
        request = http.HttpRequest(
            method, place.path or "/", http.HttpHeaders([("host", place.netloc), *headers.items()])
        )
        # Only S3 takes a path as it is written: it is quoted once, and "a//b" is another object than "a/b".
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

    return sign
