"""What can go wrong, and the exit code each has.

A Job fails at once on 2, 3 and 4 and is tried again on 5 and 6.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


class DownloadError(Exception):
    """A failure of one item: one line that names item, object, reason and next step.

    Attributes:
        code: exit code of the program.
    """

    code = 1

    def __init__(self, where: str, what: str, step: str) -> None:
        line = f"{where}: {what}; {step}" if where else f"{what}; {step}"
        super().__init__(" ".join(line.split()))


class ConfigError(DownloadError):
    """The configuration cannot be used."""

    code = 2


class NotAvailableError(DownloadError):
    """What is wanted does not exist, or is not allowed."""

    code = 3


class IntegrityError(DownloadError):
    """The bytes are not those that were asked for."""

    code = 4


class DiskFullError(DownloadError):
    """The volume has no room."""

    code = 5


class NetworkError(DownloadError):
    """The network, or the server, did not recover in time."""

    code = 6


_STATUS = re.compile(r"status code: (\d{3})")
_BODY_CODE = re.compile(r"<Code>(\w+)</Code>")
_BAD, _DENIED, _TIMEOUT, _TOO_MANY, _SERVER, _UNAVAILABLE = 400, 403, 408, 429, 500, 503

_Reason: TypeAlias = tuple[type[DownloadError], str, str]

UNTRUSTED: Final = (
    "the server's certificate is not trusted, not for this name, or out of date",
    "have the image trust its issuer, or name a file of certificates in SSL_CERT_FILE",
)
"""What is wrong with a certificate, and the next step."""

_REGION: Final = (ConfigError, "its bucket is in another region", "give the item its region and endpoint")
_CODES: Final[Mapping[str, _Reason]] = {
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "InvalidObjectState": (NotAvailableError, "it is archived", "restore it from the archive first"),
    "BlobArchived": (NotAvailableError, "it is archived", "rehydrate the blob first"),
    "RequestTimeTooSkewed": (NotAvailableError, "this node's clock is wrong", "set the clock of the node"),
    "UserProjectMissing": (NotAvailableError, "its bucket has requesters pay", "have it copied to another"),
}
"""Error codes of stores for which the HTTP status alone would suggest the wrong step."""

_SAID: Final[Mapping[str, _Reason]] = {
    "NotPartial": (NotAvailableError, "its server does not serve ranges", "use a store that does"),
    "MissingContentLength": (
        NotAvailableError,
        "its server does not tell the size",
        "use a store that does",
    ),
    "BareRedirect": _REGION,
    "TooManyRedirects": (NotAvailableError, "its server redirects in a circle", "check the endpoint"),
    "InvalidListResponse": (ConfigError, "the answer is none of an object store", "check the endpoint"),
    "InvalidCertificate": (ConfigError, *UNTRUSTED),
    "InvalidContentType": (ConfigError, "the server does not speak TLS", "write http:// if that is meant"),
}
"""What the object store library says of answers, and of servers, that stay as they are."""

_LIBRARY: Final = re.compile(rf"[:(]\s+({'|'.join(_SAID)})\b")
"""Its words for what is inside an error; keys have no white space in its messages."""


def status_of(error: BaseException) -> int | None:
    """HTTP status in an error of the object store library, None when there was no answer."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def busy(error: BaseException) -> bool:
    """Whether a server asks for patience, in which case it may say for how long."""
    return status_of(error) in (_TOO_MANY, _UNAVAILABLE)


def transient(error: BaseException) -> bool:
    """Whether trying again can help: no connection, 408, 429 and 5xx."""
    from obstore.exceptions import GenericError

    if not isinstance(error, GenericError):
        return isinstance(error, (ConnectionError, TimeoutError, NetworkError))
    status = status_of(error)
    return _said(error) is None if status is None else passing(status)


def passing(status: int) -> bool:
    """Whether an HTTP status is one of those that may be another the next time."""
    return status in (_TOO_MANY, _TIMEOUT) or status >= _SERVER


def full(error: OSError) -> bool:
    """Whether a volume has no room left, for anything or for a file of that size."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def explained(where: str, name: str, error: BaseException) -> DownloadError:
    """The failure of reading `name`, as the user reads it; never the library's own debugging text."""
    from obstore import exceptions

    if isinstance(error, DownloadError):
        return error
    status = status_of(error)
    code = _BODY_CODE.search(str(error))
    known = (code and _CODES.get(code[1])) or (_said(error) if status is None else None)
    answer = f" (HTTP {status}{' ' + code[1] if code else ''})" if status else ""
    if known:
        kind, what, step = known
        return kind(where, f"{name}: {what}{answer}", step)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return NotAvailableError(
            where, f"{name} does not exist{answer}", "check bucket and path, and that the key may list it"
        )
    if isinstance(error, exceptions.PreconditionError) or status in (412, 416):
        return changed(where, name, answer)
    if isinstance(error, (exceptions.InvalidPathError, ValueError)):
        return ConfigError(
            where,
            f"{name} has an object key that cannot be a file ({_key(error)})",
            "rename the object, or name a folder or files without it",
        )
    if isinstance(error, OSError) and full(error):
        return DiskFullError(where, f"no room left to write {name}", "make the volume larger")
    if isinstance(error, OSError) and not isinstance(error, (ConnectionError, TimeoutError)):
        return ConfigError(where, f"{name} cannot be written ({error.strerror})", "check the volume")
    if transient(error):
        return NetworkError(
            where, f"{name} could not be read{answer or ': no answer'}", "check the endpoint and the network"
        )
    also = {_BAD: "region and endpoint, ", _DENIED: "that it exists, "}.get(status or 0, "")
    return NotAvailableError(
        where,
        f"access to {name} was refused{answer}",
        f"check {also}the credentials and what they may read",
    )


def changed(where: str, name: str, answer: str = "") -> IntegrityError:
    """An object is not the one that was planned any more."""
    return IntegrityError(
        where, f"{name} changed during the download{answer}", "run again when nobody writes to it"
    )


def _said(error: BaseException) -> _Reason | None:
    found = _LIBRARY.search(str(error))
    return _SAID[found[1]] if found else None


def _key(error: BaseException) -> str:
    found = re.search(r'[pP]ath "([^"]*)"', str(error))
    return repr(found[1])[:200] if found else "it has empty, '.' or '..' segments"
