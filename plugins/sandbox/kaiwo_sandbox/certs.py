"""Keys and certificates of all sandboxes, created once and kept in the cache.

Most keys are P-256, which takes a millisecond to generate. The keys of the webhook servers and their
authority are RSA, because Kueue parses them as PKCS#1. Kueue accepts these certificates by their names and
creates none itself. All servers listen on the loopback address, and only the owner can read the files.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIFETIME = dt.timedelta(days=365)
RENEW_BEFORE = dt.timedelta(days=14)
VERSION = "2"
"""Raise it when the files or the names in certificates change; it invalidates older caches."""

ADMIN, ADMIN_GROUP = "kaiwo-sandbox-admin", "system:masters"
FRONT_PROXY = "front-proxy-client"
_LOOPBACK = "127.0.0.1"
API_SERVER_SANS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    _LOOPBACK,
    "10.96.0.1",
)
_WEBHOOK_SANS = ("kueue-webhook-service.kueue-system.svc", "localhost", _LOOPBACK)

_WEBHOOK_AUTHORITY = "kueue-ca"

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: _Key


def _write(directory: Path, name: str, key: _Key, certificate: x509.Certificate | None) -> None:
    private = directory / f"{name}.key"
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    if certificate is not None:
        (directory / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _builder(subject: x509.Name, issuer: x509.Name, key: _Key) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))  # allows for clock differences
        .not_valid_after(now + LIFETIME)
    )


def _authority(directory: Path, name: str, common_name: str = "", *, key: _Key | None = None) -> _Authority:
    common_name = common_name or f"kaiwo-sandbox-{name}"
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    certificate = (
        _builder(subject, subject, key)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(common_name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )
    _write(directory, name, key, certificate)
    return _Authority(certificate, key)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _leaf(
    directory: Path,
    authority: _Authority,
    name: str,
    common_name: str,
    *,
    group: str = "",
    alternatives: Sequence[str] = (),
    key: _Key | None = None,
) -> None:
    """Write a key and a certificate: for a server if there are alternative names, else for a client."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if group:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    usage = ExtendedKeyUsageOID.SERVER_AUTH if alternatives else ExtendedKeyUsageOID.CLIENT_AUTH
    issuer_key = x509.SubjectKeyIdentifier.from_public_key(authority.key.public_key())
    builder = (
        _builder(x509.Name(attributes), authority.certificate.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key), critical=False
        )
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    if alternatives:
        names = x509.SubjectAlternativeName([_alternative(name) for name in alternatives])
        builder = builder.add_extension(names, critical=False)
    _write(directory, name, key, builder.sign(authority.key, hashes.SHA256()))


def issue(
    directory: Path, name: str, common_name: str, *, group: str = "", alternatives: Sequence[str] = ()
) -> None:
    """Write a key and a certificate that the authority in `directory` signs.

    Args:
        directory: has ``ca.crt`` and ``ca.key``, and gets the files.
        name: name of the files.
        common_name: the subject's name, for a client its user.
        group: the group of a client.
        alternatives: names and addresses of a server; without them the certificate is a client's.
    """
    key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{directory / 'ca.key'}: expected a P-256 key, got {type(key).__name__}")
    certificate = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    authority = _Authority(certificate, key)
    _leaf(directory, authority, name, common_name, group=group, alternatives=alternatives)


def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _create(directory: Path) -> None:
    authority = _authority(directory, "ca")
    _leaf(directory, authority, "apiserver", "kube-apiserver", alternatives=API_SERVER_SANS)
    _leaf(directory, authority, "kubelet", "kwok", alternatives=("localhost", _LOOPBACK))
    _leaf(directory, authority, "admin", ADMIN, group=ADMIN_GROUP)
    webhook_authority = _authority(directory, "webhook-ca", _WEBHOOK_AUTHORITY, key=_rsa_key())
    _leaf(
        directory, webhook_authority, "webhook", _WEBHOOK_SANS[0], alternatives=_WEBHOOK_SANS, key=_rsa_key()
    )
    proxy_authority = _authority(directory, "front-proxy-ca")
    _leaf(directory, proxy_authority, "front-proxy-client", FRONT_PROXY)
    _write(directory, "service-account", ec.generate_private_key(ec.SECP256R1()), None)


def _is_valid(directory: Path) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
        version = (directory / "version").read_text()
    except (OSError, ValueError):
        return False
    remaining = certificate.not_valid_after_utc - dt.datetime.now(dt.UTC)
    return version == VERSION and remaining > RENEW_BEFORE


def ensure() -> Path:
    """Return the directory of all keys and certificates; create it if missing, expiring or outdated."""
    directory = make_private(cache_dir()) / "pki"
    with locked(cache_dir() / "pki.lock"):
        if not _is_valid(directory):
            shutil.rmtree(directory, ignore_errors=True)
            fresh = directory.with_name("pki.new")
            shutil.rmtree(fresh, ignore_errors=True)
            make_private(fresh)
            _create(fresh)
            (fresh / "version").write_text(VERSION)
            fresh.rename(directory)
    return directory


def fingerprint(directory: Path) -> str:
    """The SHA-256 hash of the authority's certificate; it identifies data that the authority signed."""
    certificate = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    return certificate.fingerprint(hashes.SHA256()).hex()
