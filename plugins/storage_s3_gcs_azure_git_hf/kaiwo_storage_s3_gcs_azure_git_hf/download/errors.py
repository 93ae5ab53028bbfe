"""Errors of a download, and the exit code of each.

The Job fails at once on 2, 3 and 4, and is tried again on 5 and 6.
"""

from __future__ import annotations

import errno
import html
import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


def printable(text: str) -> str:
    """A text of others as it may be written to a log or a terminal: on one line, what is obeyed is escaped.

    Keys and file names may have line breaks, escape sequences, and bytes that are no UTF-8.
    """
    if text.isprintable():
        return text
    escaped = (char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return "".join(escaped)


class DownloadError(Exception):
    """An item failed; the text is one line that names item, object, reason and next step.

    Attributes:
        code: exit code of the program.
    """

    code = 1

    def __init__(self, where: str, message: str, next_step: str) -> None:
        line = f"{where}: {message}; {next_step}" if where else f"{message}; {next_step}"
        super().__init__(printable(" ".join(line.split())))


class InternalError(DownloadError):
    """The program, or a downloader of another package, has a defect."""


class ConfigError(DownloadError):
    """The configuration cannot be used."""

    code = 2


class LimitError(ConfigError):
    """A limit of the command line is exceeded.

    Attributes:
        limit: name of the argument, without dashes.
    """

    def __init__(self, limit: str, where: str, message: str, next_step: str) -> None:
        super().__init__(where, message, f"{next_step} (--{limit})")
        self.limit = limit


class NotAvailableError(DownloadError):
    """What is wanted does not exist, or access to it is denied."""

    code = 3


class IntegrityError(DownloadError):
    """The content is not what was expected."""

    code = 4


class DiskFullError(DownloadError):
    """The volume has no space left."""

    code = 5


class NetworkError(DownloadError):
    """The network or the server did not recover in time.

    Attributes:
        retry_after: seconds that the server asks to wait before the next request; 0 when it names none.
    """

    code = 6

    def __init__(self, where: str, message: str, next_step: str, retry_after: float = 0.0) -> None:
        super().__init__(where, message, next_step)
        self.retry_after = retry_after


_STATUS = re.compile(r"status code: (\d{3})")
_BODY_CODE = re.compile(r"<Code>(\w+)</Code>")
_BODY_MESSAGE = re.compile(r"<Message>([^<]+)</Message>")
MAX_REASON = 200
"""Characters of a server's own words in a message."""

_BAD, _UNAUTHORIZED, _DENIED, _TIMEOUT, _TOO_MANY, _SERVER, _UNAVAILABLE = 400, 401, 403, 408, 429, 500, 503

_Reason: TypeAlias = tuple[type[DownloadError], str, str]

UNTRUSTED: Final = (
    "the server certificate is not trusted, expired, or for another name",
    "add its issuer to the image, or name a file of certificates in SSL_CERT_FILE",
)
"""Message and next step for a certificate that fails verification."""

_REGION: Final = (ConfigError, "the bucket is in another region", "set region and endpointUrl of the item")
_CODES: Final[Mapping[str, _Reason]] = {
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "InvalidObjectState": (NotAvailableError, "the object is archived", "restore it from the archive first"),
    "BlobArchived": (NotAvailableError, "the blob is archived", "rehydrate it first"),
    "RequestTimeTooSkewed": (NotAvailableError, "the clock of the node is wrong", "set the clock"),
    "UserProjectMissing": (
        NotAvailableError,
        "the bucket charges its requesters",
        "copy the objects to another bucket",
    ),
}
"""Error codes of stores for which the HTTP status alone would suggest the wrong step."""

_LIBRARY_REASONS: Final[Mapping[str, _Reason]] = {
    "NotPartial": (NotAvailableError, "the server does not support ranges", "use a store that does"),
    "MissingContentLength": (
        NotAvailableError,
        "the server does not report the size",
        "use a store that does",
    ),
    "BareRedirect": _REGION,
    "TooManyRedirects": (NotAvailableError, "the server redirects in a loop", "check the endpoint"),
    "InvalidListResponse": (ConfigError, "the response is not one of an object store", "check the endpoint"),
    "InvalidCertificate": (ConfigError, *UNTRUSTED),
    "InvalidContentType": (
        ConfigError,
        "the server does not support TLS",
        "use http:// if TLS is not wanted",
    ),
}
"""Errors of the object store library that stay the same when a request is repeated."""

_LIBRARY_CODE: Final = re.compile(rf"[:(]\s+({'|'.join(_LIBRARY_REASONS)})\b")
"""How the library writes an inner error; keys have no white space in its messages."""


def http_status(error: BaseException) -> int | None:
    """The HTTP status in an error of the object store library; None when there was no response."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def is_throttled(error: BaseException) -> bool:
    """Whether a server is busy, so that it may say for how long in Retry-After."""
    return http_status(error) in (_TOO_MANY, _UNAVAILABLE)


def is_transient(error: BaseException) -> bool:
    """Whether a repeated request can help: no connection, 408, 429 and 5xx."""
    from obstore.exceptions import GenericError

    if not isinstance(error, GenericError):
        return isinstance(error, (ConnectionError, TimeoutError, NetworkError))
    status = http_status(error)
    return _library_reason(error) is None if status is None else is_retryable_status(status)


def is_retryable_status(status: int) -> bool:
    """Whether an HTTP status may be another the next time."""
    return status in (_TOO_MANY, _TIMEOUT) or status >= _SERVER


def is_disk_full(error: OSError) -> bool:
    """Whether a volume has no space left, for anything or for a file of that size."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def to_download_error(where: str, name: str, error: BaseException) -> DownloadError:
    """Translate a failure to read `name`; the library's own debugging text is never shown."""
    from obstore import exceptions

    if isinstance(error, DownloadError):
        return error
    status = http_status(error)
    code = _BODY_CODE.search(str(error))
    known = (code and _CODES.get(code[1])) or (_library_reason(error) if status is None else None)
    answer = f"HTTP {status}{' ' + code[1] if code else ''}{_stores_words(error)}" if status else ""
    response = f" ({answer})" if answer else ""
    if known:
        kind, message, next_step = known
        return kind(where, f"{name}: {message}{response}", next_step)
    # The library's error has no errno; one with errno is about a local file.
    missing = isinstance(error, FileNotFoundError) and error.errno is None
    if missing or status in (404, 410):
        return NotAvailableError(
            where, f"{name}: not found{response}", "check bucket and path, and the permission to list"
        )
    if isinstance(error, exceptions.PreconditionError) or status in (412, 416):
        return changed_error(where, name, response)
    if isinstance(error, (exceptions.InvalidPathError, ValueError)):
        return ConfigError(
            where,
            f"{name}: object key is not a valid path ({_invalid_key(error)})",
            "rename the object, or name a folder or files without it",
        )
    if isinstance(error, OSError) and not isinstance(error, (ConnectionError, TimeoutError)):
        return _volume_error(where, name, error)
    if is_transient(error):
        return NetworkError(
            where,
            f"{name}: download failed: {answer or 'no response'}",
            "check the endpoint and the network",
        )
    if not isinstance(error, exceptions.BaseError):
        return internal_error(where, name, error)
    what = "access denied" if status in (None, _BAD, _UNAUTHORIZED, _DENIED) else "request refused"
    also = {_BAD: "region and endpoint, ", _DENIED: "that it exists, "}.get(status or 0, "")
    if code and code[1] == "SignatureDoesNotMatch":
        also = "region and endpoint, "  # stores other than Amazon's answer so to another region
    return NotAvailableError(
        where, f"{name}: {what}{response}", f"check {also}the credentials and their permissions"
    )


def _stores_words(error: BaseException) -> str:
    """What a store writes of an error, behind a colon; empty when it writes nothing."""
    found = _BODY_MESSAGE.search(str(error))
    return f": {reason_of(html.unescape(found[1]))}" if found else ""


def reason_of(text: str) -> str:
    """A server's own words as they are shown in a message: on one line, and not long."""
    return " ".join(text.split())[:MAX_REASON]


def requested_wait(error: BaseException) -> float:
    """Seconds that a server asks to wait before the next request, by its error; 0 when it names none."""
    seconds: float = getattr(error, "retry_after", 0.0)
    return seconds


def _volume_error(where: str, name: str, error: OSError) -> DownloadError:
    if is_disk_full(error):
        return DiskFullError(where, f"{name}: no space left on the volume", "increase storageSize")
    if error.errno == errno.ELOOP:
        link = error.filename or name
        return ConfigError(where, f"{link} is a symbolic link, which is not followed", "remove the link")
    if error.errno == errno.EISDIR:
        folder = error.filename2 or error.filename or name
        return ConfigError(where, f"{folder} exists and is a folder", "remove it, or change targetPath")
    return ConfigError(where, f"{name}: write failed: {error.strerror}", "check the volume")


def describe(error: BaseException) -> str:
    """Type and text of an exception, and the line that raised it."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else text


def internal_error(where: str, name: str, error: BaseException) -> InternalError:
    """The error for an exception that the program does not expect."""
    return InternalError(where, f"{name}: internal error: {describe(error)}", "report it with this line")


def changed_error(where: str, name: str, response: str = "", advice: str = "") -> IntegrityError:
    """The error for an object that is no longer the one that was planned."""
    step = "run the download again when nothing writes to it"
    return IntegrityError(
        where,
        f"{name} changed during the download{response}",
        f"{step}, {advice}" if advice else step,
    )


def _library_reason(error: BaseException) -> _Reason | None:
    found = _LIBRARY_CODE.search(str(error))
    return _LIBRARY_REASONS[found[1]] if found else None


def _invalid_key(error: BaseException) -> str:
    found = re.search(r'[pP]ath "([^"]*)"', str(error))
    return repr(found[1])[:200] if found else "it has empty, '.' or '..' segments"
