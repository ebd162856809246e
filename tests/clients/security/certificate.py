"""Certificates for tests of TLS: right ones, and each wrong in one way."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Files:
    """A key and its certificates: in files of their own, and in one."""

    key: Path
    chain: Path
    both: Path


class Issuer:
    """An authority that signs certificates. `trust` is the file with its own certificate."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now + 2 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        )
        self.trust = folder / f"{name}.pem"
        self.trust.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def sign(self, name: str, *, host: str = "", is_expired: bool = False, file: str = "") -> Files:
        """Make a key and a certificate for a name; `host` is the only host that it is for. `file` names the files."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(
                x509.Name(
                    [
                        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"),
                        x509.NameAttribute(NameOID.COMMON_NAME, name),
                    ]
                )
            )
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now - _DAY if is_expired else now + _DAY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        names: list[x509.GeneralName] = [x509.DNSName(host or "localhost")]
        if not host:
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = _pem(builder.sign(self._key, hashes.SHA256()))
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        stem = file or name
        made = Files(*(self._folder / f"{stem}-{part}.pem" for part in ("key", "chain", "both")))
        made.key.write_bytes(secret)
        made.chain.write_bytes(certificate)
        made.both.write_bytes(secret + certificate)
        return made


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
