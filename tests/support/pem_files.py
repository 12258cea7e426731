"""An authority of certificates, a server's certificate and a client's, for tests of TLS."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@attrs.frozen
class PemFiles:
    """The files.

    Attributes:
        authority: The certificate of the authority.
        server: The server's key, and its certificates.
        client_key: The client's key.
        client_certificate: The client's certificate.
    """

    authority: Path
    server: Path
    client_key: Path
    client_certificate: Path

    @classmethod
    def make(cls, folder: Path) -> PemFiles:
        """Make all of them; the server is 127.0.0.1.

        Args:
            folder: Where they are put.
        """
        key, name = ec.generate_private_key(ec.SECP256R1()), _name("hoodie tests")
        authority = _certificate(name, name, key, key, is_authority=True)
        files = cls(folder / "ca.pem", folder / "server.pem", folder / "client.key", folder / "client.pem")
        files.authority.write_bytes(authority)
        server_key, client_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        files.server.write_bytes(_key(server_key) + _certificate(_name("127.0.0.1"), name, server_key, key) + authority)
        files.client_key.write_bytes(_key(client_key))
        files.client_certificate.write_bytes(_certificate(_name("client"), name, client_key, key))
        return files


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    is_authority: bool = False,
) -> bytes:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
