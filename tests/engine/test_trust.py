"""Which server certificates are trusted, by the authorities that a kubeconfig names."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kaiwo.engine import kubeconfig
from kaiwo.engine.errors import CredentialsError
from kaiwo.testing.handshake import shake_hands

if TYPE_CHECKING:
    from pathlib import Path

HOST = "cluster.example"


class Pair(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: str = "") -> str:
        """The key."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            encryption = serialization.BestAvailableEncryption(password.encode())
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()


def issued(name: str, issuer: Pair | None = None) -> Pair:
    """A certificate without key identifiers, as some clusters have; an authority unless it is the host's."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=name != HOST, path_length=None), critical=True)
    )
    if name == HOST:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    return Pair(made.sign(issuer.key if issuer else key, hashes.SHA256()), key)


def handshake(client: ssl.SSLContext, pair: Pair, directory: Path) -> None:
    """A handshake with a server that has this certificate."""
    file = directory / "server.pem"
    file.write_text(pair.pem + pair.key_pem())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    shake_hands(client, server, HOST)


def settings(authority: bytes) -> ssl.SSLContext:
    """TLS settings of a kubeconfig with these authorities."""
    cluster = {
        "server": f"https://{HOST}",
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    context = kubeconfig.tls(cluster, {}, "here")
    assert context is not None
    return context


def test_an_authority_without_key_identifiers_is_trusted_by_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 and later check strictly unless told otherwise; kubectl does not, and EKS has such ones."""
    usual = ssl.create_default_context

    def strict(cadata: str | None = None, cafile: str | None = None) -> ssl.SSLContext:
        context = usual(cadata=cadata, cafile=cafile)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    root = issued("root")
    handshake(settings(root.pem.encode()), issued(HOST, root), tmp_path)


def test_an_intermediate_authority_is_trusted_without_its_root(tmp_path: Path) -> None:
    """A company's kubeconfig often has only the authority that issued the certificate; kubectl takes it."""
    between = issued("between", issued("root"))
    handshake(settings(between.pem.encode()), issued(HOST, between), tmp_path)


def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    """What is accepted beside the default is not any certificate."""
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(settings(issued("root").pem.encode()), issued(HOST, issued("root")), tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_comments_of_a_bundle_may_be_in_any_language(tmp_path: Path, encoding: str) -> None:
    """Bundles of a company name their authorities, and OpenSSL reads no comments."""
    root = issued("root")
    bundle = f"# Autorité de certification\n{root.pem}".encode(encoding)
    handshake(settings(bundle), issued(HOST, root), tmp_path)


def test_an_encrypted_client_key_is_refused_without_a_question_on_the_terminal(tmp_path: Path) -> None:
    """Nobody could answer it in an operator; kubectl refuses such a key, too."""
    pair = issued("ada")
    (tmp_path / "c").write_text(pair.pem)
    (tmp_path / "k").write_text(pair.key_pem(password="secret"))
    user = {"client-certificate": str(tmp_path / "c"), "client-key": str(tmp_path / "k")}
    with pytest.raises(CredentialsError, match="the client key is encrypted"):
        kubeconfig.tls({"server": f"https://{HOST}"}, user, "here")
