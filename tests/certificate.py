"""Certificates for tests of TLS."""

import shutil
import subprocess
from pathlib import Path

import pytest
from bench.cache import FETCH_HINT


def make_certificate(folder: Path, name: str, host: str, issuer: str | None = None) -> None:
    """Make a key with a certificate: NAME.pem holds both, NAME-key.pem the key, NAME-ca.pem the certificate.

    It is signed by itself, or by the `issuer` that was made before. Skip the test if openssl is not installed.
    """
    if shutil.which("openssl") is None:
        pytest.skip(f"openssl, which makes the certificates, is not installed; {FETCH_HINT}")
    key, certificate = folder / f"{name}-key.pem", folder / f"{name}-ca.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName={host}", "-keyout", str(key), "-out", str(certificate)]
    if issuer is not None:
        command += ["-CA", str(folder / f"{issuer}-ca.pem"), "-CAkey", str(folder / f"{issuer}-key.pem")]
        command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, capture_output=True)
    (folder / f"{name}.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
