"""Certificates of the webhooks, decided without a clock, a file or a cluster."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kaiwo.admission.certificates import (
    LIFETIME,
    RETIRED_AFTER,
    Certificates,
    expiry,
    fault_of,
    is_trusted,
    issue,
    next_certificates,
)
from kaiwo.testing.handshake import shake_hands

NAMES = ("kaiwo-webhooks.kaiwo-system.svc",)
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOTHING = Certificates()


@pytest.fixture(scope="module")
def fresh() -> Certificates:
    """Certificates made now."""
    return issue(NAMES, NOW)


def decided(stored: Certificates, at: datetime, serving: Certificates | None = None) -> Certificates | None:
    """What is stored next."""
    change = next_certificates(stored, serving, NAMES, at)
    return change.certificates if change else None


def test_a_new_certificate_can_be_used_at_once_and_is_kept(fresh: Certificates) -> None:
    """No second one is made for it, also not by a replica whose clock is an hour off."""
    for clock in (-HOUR, timedelta(), HOUR):
        assert fault_of(fresh, NAMES, NOW + clock) is None
        assert decided(fresh, NOW + clock) is None
    assert expiry(fresh) == NOW + LIFETIME


def test_an_empty_secret_is_filled() -> None:
    """The Secret is rendered without content."""
    change = next_certificates(NOTHING, None, NAMES, NOW)
    assert change is not None
    assert change.why == "CertificateMissing: tls.crt and tls.key missing"
    assert fault_of(change.certificates, NAMES, NOW) is None


def test_a_certificate_is_replaced_a_month_before_its_end(fresh: Certificates) -> None:
    """Its authority stays trusted, so that replicas with the old certificate are reached meanwhile."""
    assert decided(fresh, NOW + 58 * DAY) is None
    successor = decided(fresh, NOW + 61 * DAY)
    assert successor is not None
    assert successor.certificate != fresh.certificate
    for certificate in (fresh.certificate, successor.certificate):
        assert is_trusted(certificate, successor.authorities)


def test_two_replicas_with_different_clocks_do_not_rotate_in_turn(fresh: Certificates) -> None:
    """What one of them stores is right for the other, an hour before or after."""
    rotation = NOW + 61 * DAY
    successor = decided(fresh, rotation)
    assert successor is not None
    assert decided(successor, rotation - HOUR) is None
    assert decided(successor, rotation + HOUR) is None


def test_the_old_authority_ends_when_no_replica_needs_it(fresh: Certificates) -> None:
    """Hours after the rotation, more than clocks differ; the certificate stays the same."""
    rotation = NOW + 61 * DAY
    successor = decided(fresh, rotation)
    assert successor is not None
    assert decided(successor, rotation + RETIRED_AFTER - HOUR) is None
    last = decided(successor, rotation + RETIRED_AFTER + HOUR)
    assert last is not None
    assert last.certificate == successor.certificate
    assert not is_trusted(fresh.certificate, last.authorities)
    assert decided(last, rotation + RETIRED_AFTER + HOUR) is None


def test_a_deleted_secret_gets_a_new_certificate_beside_the_one_in_use(fresh: Certificates) -> None:
    """Replicas serve with the old one until they have read the new one."""
    successor = decided(NOTHING, NOW + DAY, serving=fresh)
    assert successor is not None
    assert is_trusted(fresh.certificate, successor.authorities)


def test_repeated_rotations_do_not_pile_up_authorities(fresh: Certificates) -> None:
    """Somebody who deletes the Secret again and again does not make the bundle grow without end."""
    serving = fresh
    for minute in range(10):
        made = decided(NOTHING, NOW + timedelta(minutes=minute), serving=serving)
        assert made is not None
        serving = made
    assert serving.authorities.count(b"BEGIN CERTIFICATE") == 4


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"certificate": b""}, "CertificateMissing"),
        ({"key": b""}, "CertificateMissing"),
        (
            {"certificate": b"-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----"},
            "CertificateInvalid",
        ),
        ({"key": issue(NAMES, NOW).key}, "CertificateInvalid"),
        ({"key": b"\xff"}, "CertificateInvalid"),
        ({"authorities": issue(NAMES, NOW).authorities}, "CertificateUntrusted"),
    ],
)
def test_damaged_content_is_named_and_replaced(
    fresh: Certificates, how: dict[str, bytes], reason: str
) -> None:
    """Whatever somebody wrote into the Secret by hand."""
    damaged = replace(fresh, **how)
    fault = fault_of(damaged, NAMES, NOW)
    assert fault is not None
    assert fault.reason == reason
    made = decided(damaged, NOW)
    assert made is not None
    assert fault_of(made, NAMES, NOW) is None


def test_an_expired_certificate_and_one_for_another_name_are_replaced(fresh: Certificates) -> None:
    """The message says when it ended, or which name is missing."""
    late = fault_of(fresh, NAMES, NOW + LIFETIME)
    assert late == ("CertificateExpired", "the certificate expired at 2027-02-20T12:00:00Z")
    early = fault_of(fresh, NAMES, NOW - 2 * DAY)
    assert early is not None
    assert early.reason == "CertificateNotYetValid"
    other = fault_of(fresh, ("kaiwo-webhooks.other.svc",), NOW)
    assert other == ("CertificateWrongName", "the certificate is not valid for kaiwo-webhooks.other.svc")
    assert decided(fresh, NOW + LIFETIME) is not None
    assert next_certificates(fresh, None, ("kaiwo-webhooks.other.svc",), NOW) is not None


def given_by_hand(authority_until: datetime, until: datetime) -> Certificates:
    """Certificates as an administrator makes them, whose authority has a life of its own."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "by hand")])

    def made(subject: x509.Name, of: ec.EllipticCurvePrivateKey, end: datetime, *, ca: bool) -> bytes:
        builder = x509.CertificateBuilder(issuer, subject, of.public_key(), x509.random_serial_number())
        dated = builder.not_valid_before(NOW - 300 * DAY).not_valid_after(end)
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in NAMES])
        dated = dated.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        signed = dated.add_extension(names, critical=False).sign(authority_key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    leaf = made(x509.Name([]), key, until, ca=False)
    return Certificates(leaf, text, made(issuer, authority_key, authority_until, ca=True))


def test_an_authority_that_has_expired_is_named() -> None:
    """The API server would refuse each handshake, while the certificate itself is valid for a year."""
    given = given_by_hand(NOW + 30 * DAY, NOW + 365 * DAY)
    assert fault_of(given, NAMES, NOW) is None
    assert expiry(given) == NOW + 30 * DAY
    late = fault_of(given, NAMES, NOW + 30 * DAY)
    assert late == ("CertificateExpired", "the authority in ca.crt expired at 2026-12-22T12:00:00Z")
    assert expiry(replace(given, authorities=b"")) == NOW + 365 * DAY
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake_with(given_by_hand(datetime.now(UTC) - DAY, datetime.now(UTC) + DAY))


def test_nothing_of_a_key_is_shown(fresh: Certificates) -> None:
    """A log line with the object, or with a fault, holds no part of it."""
    assert repr(fresh) == "Certificates()"
    fault = fault_of(replace(fresh, key=b"-----BEGIN PRIVATE KEY-----canary"), NAMES, NOW)
    assert "canary" not in str(fault)


def test_python_and_openssl_accept_a_handshake_with_it() -> None:
    """Strict verification of name, usage and chain, TLS 1.2 and 1.3."""
    made = issue(NAMES, datetime.now(UTC))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        handshake_with(made, version, ssl.VERIFY_X509_STRICT)


def handshake_with(
    given: Certificates,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    strict: ssl.VerifyFlags = ssl.VERIFY_DEFAULT,
) -> None:
    """Carry out a handshake of a client that trusts the authorities."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(given.certificate + given.key)
        file.flush()
        server.load_cert_chain(file.name)
    client = ssl.create_default_context(cadata=given.authorities.decode())
    client.verify_flags |= strict
    client.maximum_version = version
    shake_hands(client, server, NAMES[0])
