"""Keys and certificates that are replaced while a client runs."""

from pathlib import Path

import pytest
from tests.logged import logged
from tests.unit.client.security.secure_broker import SecureBroker
from tests.unit.security.tls.tls_files import Authority

from tailrace.client.address import parse_addresses
from tailrace.client.connection import Connection
from tailrace.client.error import AuthenticationError
from tailrace.client.setting import ClientSettings
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse


async def test_new_connections_use_the_files_of_the_moment(
    secure: SecureBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A client read its files when it was created, so that it had to be restarted before its certificate expired."""
    trusted, key, certificate = (tmp_path / name for name in ("trusted.pem", "key.pem", "certificate.pem"))
    stranger, alice = Authority("another").issue("somebody"), secure.authority.issue("alice")
    trusted.write_text(stranger.authority.pem)
    key.write_text(stranger.key_pem())
    certificate.write_text(stranger.certificate_pem)
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(trusted),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
    }
    security = ClientSettings(None, settings, {}).make_security()
    address = parse_addresses(secure.address("MUTUAL"))[0]

    async def use() -> None:
        connection = await Connection.open(address, security=security)
        try:
            await connection.request(MetadataRequest(topics=[]), MetadataResponse)
        finally:
            await connection.close()

    with pytest.raises(AuthenticationError, match="is not trusted"):
        await use()
    trusted.write_text(secure.authority.pem)
    with pytest.raises(AuthenticationError, match="the certificate of this client"):
        await use()
    key.write_text(alice.key_pem())
    with pytest.raises(AuthenticationError, match="the certificate of this client"):
        await use()
    assert "new connections use the keys and certificates from before: ssl.key.location" in logged(caplog)
    certificate.write_text(alice.certificate_pem)
    await use()
