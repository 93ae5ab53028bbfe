"""The sandbox's certificates are valid for what they are used for, and private."""

from __future__ import annotations

import datetime as dt
import ssl
import stat
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.verification import PolicyBuilder, Store

from kaiwo_sandbox import certs

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_server_certificates_hold_for_the_names_that_clients_use(home: Path) -> None:
    """Python, Go and webhooks verify the name or address they connected to."""
    del home
    pki = certs.ensure()
    for authority, name, alternatives in (
        ("ca", "apiserver", {"localhost", "kubernetes.default.svc"}),
        ("webhook-ca", "webhook", {"kueue-webhook-service.kueue-system.svc", "localhost"}),
    ):
        certificate = _load(pki / f"{name}.crt")
        store = Store([_load(pki / f"{authority}.crt")])
        verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName("localhost"))
        assert verifier.verify(certificate, [])
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert alternatives <= set(names.get_values_for_type(x509.DNSName))
        assert "127.0.0.1" in {str(each) for each in names.get_values_for_type(x509.IPAddress)}


def test_the_administrator_is_in_the_group_that_may_do_everything(home: Path) -> None:
    """Without the group every request would need a role."""
    del home
    subject = _load(certs.ensure() / "admin.crt").subject
    (group,) = subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
    assert group.value == "system:masters"


def test_python_can_use_the_administrators_certificate(home: Path) -> None:
    """Key and certificate belong together."""
    del home
    pki = certs.ensure()
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))


def test_kueues_keys_are_of_the_kind_that_it_parses(home: Path) -> None:
    """Kueue reads PKCS#1 RSA keys only, and would replace others."""
    del home
    for name in ("webhook-ca", "webhook"):
        text = (certs.ensure() / f"{name}.key").read_bytes()
        assert text.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
        assert isinstance(serialization.load_pem_private_key(text, None), rsa.RSAPrivateKey)


def test_keys_are_readable_by_their_owner_alone(home: Path) -> None:
    """Anybody who reads one can do everything in the sandbox."""
    del home
    pki = certs.ensure()
    assert stat.S_IMODE(pki.stat().st_mode) == 0o700
    modes = {key.name: stat.S_IMODE(key.stat().st_mode) for key in pki.glob("*.key")}
    assert "ca.key" in modes
    assert set(modes.values()) == {0o600}, modes


def test_certificates_are_made_once_and_again_before_they_expire(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prepared data are tied to the authority, so it stays the same as long as it can."""
    del home
    first = certs.fingerprint(certs.ensure())
    assert certs.fingerprint(certs.ensure()) == first
    monkeypatch.setattr(certs, "RENEW_BEFORE", certs.LIFETIME + dt.timedelta(days=1))
    assert certs.fingerprint(certs.ensure()) != first


def test_an_older_version_of_the_files_is_replaced(home: Path) -> None:
    """An upgrade that needs other names in certificates must not use cached ones."""
    del home
    pki = certs.ensure()
    first = certs.fingerprint(pki)
    (pki / "version").write_text("0")
    assert certs.fingerprint(certs.ensure()) != first
