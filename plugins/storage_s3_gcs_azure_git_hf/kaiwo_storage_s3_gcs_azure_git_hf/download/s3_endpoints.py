"""What the host of an S3 endpoint says about its store: region, URL of a bucket, and meaning of ETags."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

DEFAULT_REGION = "us-east-1"

_REGION: Final = re.compile(r"(?:^|\.)s3[a-z-]*?[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d+)\.")
"""The region in S3 endpoints: those of AWS (s3.eu-west-1, s3-fips.dualstack.us-east-1, s3.cn-north-1,
bucket.vpce-1a2b-3c4d.s3.us-east-1.vpce), and of stores that use the same names."""

_BUCKET_IN_HOST: Final = re.compile(r"oss-[a-z0-9-]+\.aliyuncs\.com|cos\.[a-z0-9-]+\.myqcloud\.com")
"""Endpoints that refuse a bucket in the path (SecondLevelDomainForbidden, PathStyleDomainForbidden); minio-go
and rclone write it into the host there."""

_OTHER_ETAGS: Final = re.compile(r"[a-z0-9-]+\.object\.fastlystorage\.app")
"""Endpoints whose ETags look like an MD5 of the content and are none, as rclone knows them."""


def region(url: str) -> str:
    """The region in the name of an endpoint; stores that name none accept any, and us-east-1 is usual."""
    found = _REGION.search(urlsplit(url).hostname or "")
    return found[1] if found else DEFAULT_REGION


def bucket_url(url: str, bucket: str) -> tuple[str, bool]:
    """The URL of a bucket.

    Args:
        url: the endpoint, without a slash at its end.
        bucket: name of the bucket.

    Returns:
        The URL, and whether the bucket is part of its host.
    """
    place = urlsplit(url)
    host = (place.hostname or "").removeprefix(f"{bucket}.")
    if not _BUCKET_IN_HOST.fullmatch(host):
        return f"{url}/{bucket}", False
    port = f":{place.port}" if place.port else ""
    return f"{place.scheme}://{bucket}.{host}{port}", True


def has_md5_etags(url: str) -> bool:
    """Whether the ETag of an object that was uploaded in one piece is the MD5 of its content."""
    return not _OTHER_ETAGS.fullmatch(urlsplit(url).hostname or "")
