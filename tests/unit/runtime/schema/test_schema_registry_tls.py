"""A broker and a schema registry with HTTPS: certificates of a private authority, and of the broker."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificate import make_certificate
from tests.unit.runtime.schema.registry_stub import RegistryStub, registry_stub
from tests.unit.sample import ManualClock

from tailrace.base.metric import Registry
from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.runtime.schema.registry import RegistryError
from tailrace.runtime.schema.validation import SchemaValidation

TRUSTSTORE = "confluent.ssl.truststore.location"
KEYSTORE = "confluent.ssl.keystore.location"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_certificate(folder, "authority", "DNS:authority")
    make_certificate(folder, "registry", "IP:127.0.0.1", "authority")
    make_certificate(folder, "stranger", "DNS:elsewhere", "authority")
    make_certificate(folder, "broker", "DNS:broker", "authority")
    return folder


@asynccontextmanager
async def secure_stub(keys: Path, name: str = "registry", *, asks_client: bool = False) -> AsyncIterator[RegistryStub]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys / f"{name}.pem")
    if asks_client:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(keys / "authority-ca.pem")
    async with registry_stub(tls) as stub:
        stub.subjects = {7: ["t-value"]}
        yield stub


async def find(stub: RegistryStub, **options: object) -> bool:
    """Look an id up as a broker with these options does."""
    texts = {name: str(value) for name, value in options.items()}
    config = BrokerConfig({"confluent.schema.registry.url": stub.url, **texts})
    validation = SchemaValidation(config, ManualClock(), Registry())
    try:
        return await validation.find(7, "t-value")
    finally:
        await validation.stop()


async def test_the_certificate_of_a_private_authority(keys: Path) -> None:
    async with secure_stub(keys) as stub:
        trusting = {TRUSTSTORE: keys / "authority-ca.pem"}
        assert await find(stub, **trusting, **{"confluent.basic.auth.user.info": "ann:secret"})
        assert b"\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n" in stub.heads[0]


async def test_an_authority_that_the_system_does_not_know(keys: Path) -> None:
    async with secure_stub(keys) as stub:
        with pytest.raises(RegistryError, match="CERTIFICATE_VERIFY_FAILED"):
            await find(stub)
        assert stub.asked == []


async def test_a_certificate_of_another_host(keys: Path) -> None:
    async with secure_stub(keys, "stranger") as stub:
        with pytest.raises(RegistryError, match=r"127\.0\.0\.1"):
            await find(stub, **{TRUSTSTORE: keys / "authority-ca.pem"})


async def test_the_certificate_of_the_broker(keys: Path) -> None:
    trusting = {TRUSTSTORE: keys / "authority-ca.pem"}
    async with secure_stub(keys, asks_client=True) as stub:
        assert await find(stub, **trusting, **{KEYSTORE: keys / "broker.pem"})
        with pytest.raises(RegistryError):
            await find(stub, **trusting)


@pytest.mark.parametrize("content", [None, "no certificate"])
@pytest.mark.parametrize("option", [TRUSTSTORE, KEYSTORE])
async def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, option: str, content: str | None) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)
    config = BrokerConfig({"confluent.schema.registry.url": "https://one.example", option: str(file)})
    with pytest.raises(ConfigError, match=r"TLS to the schema registry cannot be set up with .*file\.pem") as caught:
        SchemaValidation(config, ManualClock(), Registry())
    assert caught.value.name == option
