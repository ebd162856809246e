"""Keys and certificates for tests of TLS contexts, made once, and handshakes in memory."""

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
PASSWORD = "s3cret-of-the-store"


class Authority:
    """A certificate authority that issues certificates for localhost."""

    def __init__(self, name: str = "ca") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = _sign(name, self.key, name, self.key, is_authority=True)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, name: str, *, expired: bool = False, organization: str | None = None) -> "Issued":
        key = ec.generate_private_key(ec.SECP256R1())
        authority = self.certificate.subject
        certificate = _sign(name, key, authority, self.key, expired=expired, organization=organization)
        return Issued(key, certificate, self)


class Issued:
    """A key with its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, authority: Authority) -> None:
        self.key, self.certificate, self.authority = key, certificate, authority

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    def write_pem(self, path: Path, password: str | None = None) -> str:
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return str(path)

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> str:
        chain = [self.authority.certificate]
        data = pkcs12.serialize_key_and_certificates(b"x", self.key, self.certificate, chain, _encryption(password))
        path.write_bytes(data)
        return str(path)


def _encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())


def _sign(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str | x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
    expired: bool = False,
    organization: str | None = None,
) -> x509.Certificate:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization is not None:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(parts))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * DAY)
        .not_valid_after(now - DAY if expired else now + DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _name(name: str | x509.Name) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) if isinstance(name, str) else name


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Return the server's and the client's end of a connection in memory; raise the error of the first that fails."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(up, down, server_side=True),
        client.wrap_bio(down, up, server_hostname=host),
    )
    for _ in range(4):
        for end in reversed(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    for end, text in zip(ends, (b"hello", b"world"), strict=True):
        end.write(text)
    assert [end.read(5) for end in ends] == [b"world", b"hello"]
    return ends
