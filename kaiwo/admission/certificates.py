"""Certificates of the webhooks: whether they can be used, when others are due, and what is stored then.

An authority signs one certificate, and its private key is dropped at once: each rotation makes a new
authority. It is added to the trusted ones beside the old one, which leaves hours later. Nothing here reads a
clock, a file or the cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from kaiwo.admission.names import AUTHORITIES, CERTIFICATE, KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cryptography.x509 import Certificate, GeneralName

LIFETIME: Final = timedelta(days=90)

BACKDATED: Final = timedelta(days=1)
"""How long before its making a certificate is valid, for machines whose clock is late."""

RENEWED_AFTER: Final = 2 / 3
"""Share of a certificate's life after which its successor is made."""

RETIRED_AFTER: Final = timedelta(hours=4)
"""How long the authorities before the current one stay trusted: until every replica has the new one."""

MOST_RETIRED: Final = 3
"""Authorities beside the current one, so that repeated rotations do not pile up."""

_LOCAL = ("localhost", "127.0.0.1")
"""Further names in certificates that the operator signs: for tests, and for calls through a port-forward."""

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Certificates:
    """A server's certificate with its chain, its key, and the trusted authorities, all PEM.

    Its representation shows nothing of them.
    """

    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    authorities: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> Certificates:
        """What files, or the keys of a Secret, hold; what is missing is empty."""
        return cls(files.get(CERTIFICATE, b""), files.get(KEY, b""), files.get(AUTHORITIES, b""))

    def files(self) -> dict[str, bytes]:
        """The content of each file, or of each key of a Secret."""
        return {CERTIFICATE: self.certificate, KEY: self.key, AUTHORITIES: self.authorities}


class CertificateFault(NamedTuple):
    """Why certificates cannot be used.

    Attributes:
        reason: CamelCase word for a condition.
        message: sentence for people; never holds a part of a key.
    """

    reason: str
    message: str


class Change(NamedTuple):
    """Certificates to store, and why."""

    why: str
    certificates: Certificates


def fault_of(given: Certificates, names: Iterable[str], now: datetime) -> CertificateFault | None:
    """Why certificates cannot be used for these names now; None when they can."""
    if not given.certificate or not given.key:
        missing = [name for name, value in ((CERTIFICATE, given.certificate), (KEY, given.key)) if not value]
        return CertificateFault("CertificateMissing", f"{' and '.join(missing)} missing")
    chain = _read(given.certificate)
    if not chain:
        return CertificateFault("CertificateInvalid", f"{CERTIFICATE} has no readable certificate")
    leaf = chain[0]
    if now >= leaf.not_valid_after_utc:
        return CertificateFault(
            "CertificateExpired", f"the certificate expired at {_shown(leaf.not_valid_after_utc)}"
        )
    if now < leaf.not_valid_before_utc:
        until = _shown(leaf.not_valid_before_utc)
        return CertificateFault("CertificateNotYetValid", f"the certificate is not valid before {until}")
    valid_for = _names(leaf)
    if lacking := [name for name in names if not _covers(valid_for, name)]:
        return CertificateFault(
            "CertificateWrongName", f"the certificate is not valid for {', '.join(lacking)}"
        )
    if not _is_key_of(leaf, given.key):
        return CertificateFault(
            "CertificateInvalid", f"{KEY} is not the key of {CERTIFICATE}, or cannot be read"
        )
    if not given.authorities:
        return None
    signers = _signers(chain, given.authorities)
    if not signers:
        return CertificateFault(
            "CertificateUntrusted", f"no authority in {AUTHORITIES} signed the certificate"
        )
    # The API server checks the life of an authority as that of the certificate.
    ends = max(one.not_valid_after_utc for one in signers)
    if now >= ends:
        return CertificateFault(
            "CertificateExpired", f"the authority in {AUTHORITIES} expired at {_shown(ends)}"
        )
    return None


def is_trusted(certificate: bytes, authorities: bytes) -> bool:
    """Whether a certificate, or one of its chain, is among the authorities or was signed by one of them."""
    return bool(_signers(_read(certificate), authorities))


def expiry(given: Certificates) -> datetime | None:
    """When certificates can be used no longer: the certificate or its last authority ends.

    None if the certificate cannot be read.
    """
    chain = _read(given.certificate)
    if not chain:
        return None
    signers = [one.not_valid_after_utc for one in _signers(chain, given.authorities)]
    until = chain[0].not_valid_after_utc
    return min(until, max(signers)) if signers else until


def next_certificates(
    stored: Certificates, serving: Certificates | None, names: Sequence[str], now: datetime
) -> Change | None:
    """What to store in place of the stored certificates; None while they stay.

    Whatever is stored anew is trusted before it is used, because the authorities of what is in use stay.

    Args:
        stored: what is stored, empty where nothing is.
        serving: what this process serves with, None for nothing yet.
        names: what the certificate must be valid for.
        now: the time, UTC.
    """
    fault = fault_of(stored, names, now)
    if fault is None and not stored.authorities:
        fault = CertificateFault("CertificateUntrusted", f"{AUTHORITIES} missing")
    if fault is not None:
        why = f"{fault.reason}: {fault.message}"
    else:
        leaf = _read(stored.certificate)[0]
        life = leaf.not_valid_after_utc - leaf.not_valid_before_utc
        if now < leaf.not_valid_before_utc + life * RENEWED_AFTER:
            return _without_retired(stored, leaf, now)
        why = f"RotationDue: the certificate expires at {_shown(leaf.not_valid_after_utc)}"
    made = issue(names, now)
    used = [one for one in (stored, serving) if one is not None]
    old = [a for one in used for a in _read(one.authorities) if now < a.not_valid_after_utc]
    kept = [*_read(made.authorities), *_distinct(old)[:MOST_RETIRED]]
    return Change(why, replace(made, authorities=_pem(kept)))


def _without_retired(stored: Certificates, leaf: Certificate, now: datetime) -> Change | None:
    """The stored certificates without authorities that no process needs any more."""
    authorities = _read(stored.authorities)
    current = [authority for authority in authorities if _signed(authority, leaf)]
    if len(authorities) == len(current) or now < leaf.not_valid_before_utc + BACKDATED + RETIRED_AFTER:
        return None
    return Change("AuthorityRetired: an earlier authority ends", replace(stored, authorities=_pem(current)))


def issue(names: Sequence[str], now: datetime, lifetime: timedelta = LIFETIME) -> Certificates:
    """A new key and its certificate, signed by a new authority whose key is dropped.

    Args:
        names: DNS names and addresses that it is valid for, besides those of this machine.
        now: the time, UTC.
        lifetime: how long it is valid from now.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def builder(
        subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool
    ) -> x509.CertificateBuilder:
        usage = x509.KeyUsage(
            digital_signature=not ca, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=ca, crl_sign=ca,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(now + lifetime)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    # Two authorities that are trusted at once need different names, or a client may pick the wrong one.
    title = f"{names[0]} authority {x509.random_serial_number() % 10**12:012d}"
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title[-64:])])
    authority = builder(issuer, issuer, authority_key, ca=True).sign(authority_key, hashes.SHA256())
    leaf = (
        builder(x509.Name([]), issuer, key, ca=False)
        .add_extension(x509.SubjectAlternativeName([_general(n) for n in (*names, *_LOCAL)]), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificates(_pem([leaf]), text, _pem([authority]))


def _general(name: str) -> GeneralName:
    import ipaddress

    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _signers(chain: Sequence[Certificate], authorities: bytes) -> list[Certificate]:
    """The authorities that are in a chain or signed one of it."""
    return [
        other for other in _read(authorities) if any(one == other or _signed(other, one) for one in chain)
    ]


def _read(pem: bytes) -> list[Certificate]:
    """The certificates of a PEM text, without those that cannot be read."""
    from cryptography import x509

    found = []
    for block in _PEM.findall(pem):
        try:
            found.append(x509.load_pem_x509_certificate(block))
        except ValueError:
            continue
    return found


def _pem(certificates: Iterable[Certificate]) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def _distinct(certificates: Iterable[Certificate]) -> list[Certificate]:
    """Each certificate once, the youngest first."""
    return sorted(set(certificates), key=lambda one: one.not_valid_before_utc, reverse=True)


def _names(leaf: Certificate) -> set[str]:
    from cryptography import x509

    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {str(name.value).lower() for name in found if isinstance(name, x509.DNSName | x509.IPAddress)}


def _covers(names: set[str], name: str) -> bool:
    return name.lower() in names or f"*.{name.partition('.')[2]}".lower() in names


def _is_key_of(leaf: Certificate, key: bytes) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(key, None).public_key() == leaf.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False


def _signed(authority: Certificate, certificate: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _shown(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
