"""A registry whose brokers want TLS and a login."""

from collections.abc import Iterator

import httpx
import pytest
from tests.unit.client.security.secure_broker import JAAS, SecureBroker, start_secure_broker
from tests.unit.registry.serving import serving, starting

from tailrace.registry.process import Options
from tailrace.registry.store import StoreError


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with start_secure_broker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker


def options(secure: SecureBroker, mechanism: str, jaas: str) -> Options:
    client = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.certificates": secure.authority.pem,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
    }
    return Options(secure.address("SASL_SSL"), client=client)


async def test_a_registry_logs_in(secure: SecureBroker) -> None:
    async with serving(options(secure, "SCRAM-SHA-512", JAAS["SCRAM-SHA-512"])) as server:
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{server.url}/subjects/a/versions", json={"schema": '"int"'})
        assert answer.json()["id"] == 1


async def test_a_refused_login_ends_the_registry(secure: SecureBroker) -> None:
    wrong = JAAS["PLAIN"].replace('password="', 'password="not-')
    with pytest.raises(StoreError, match="refuses the login by PLAIN"):
        async with starting(options(secure, "PLAIN", wrong)) as server:
            await server.registry.store.watch()
