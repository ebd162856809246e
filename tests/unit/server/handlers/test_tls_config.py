"""AlterConfigs of a listener's keys and certificates: those that cannot be used are refused, as Kafka 4.3.1 does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificate import make_certificate
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.config.alter import AlterOperation
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.config import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tailrace.server.security.guards import Guards

BROKER = 4
KEYSTORE = "listener.name.ssl.ssl.keystore.location"
TRUSTSTORE = "listener.name.ssl.ssl.truststore.location"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keys")
    make_certificate(made, "old", "DNS:localhost")
    make_certificate(made, "new", "DNS:localhost")
    (made / "rubbish.pem").write_text("rubbish")
    return made


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[tuple[Peer, Guards]]:
    """A broker with a listener for TLS, and the guards of its listeners."""
    async with peer(
        listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        listener_name_ssl_ssl_keystore_location=str(folder / "old.pem"),
    ) as client:
        guards = Guards(client.broker)
        for listener in client.broker.config.broker_listeners:
            guards.open(listener)
        yield client, guards
        await guards.close()


async def alter(client: Peer, name: str, value: Path | str | None, *, validate_only: bool = False) -> tuple[int, str]:
    """Set a config of the broker, or delete it if the value is None; return the error and its text."""
    operation = AlterOperation.DELETE if value is None else AlterOperation.SET
    config = IncrementalAlterConfigsRequestConfig(
        name=name, config_operation=operation, value=None if value is None else str(value)
    )
    resource = IncrementalAlterConfigsRequestResource(resource_type=BROKER, resource_name="1", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await client.ask(request)).responses
    return result.error_code, result.error_message or ""


@pytest.mark.parametrize("option", [KEYSTORE, TRUSTSTORE])
@pytest.mark.parametrize(
    ("file", "problem"), [("nowhere.pem", "the file does not exist"), ("rubbish.pem", "")], ids=["no file", "no PEM"]
)
async def test_a_file_that_cannot_be_used_is_refused(folder: Path, option: str, file: str, problem: str) -> None:
    """It was accepted, and the listener went on with its old key until the broker could not be started again."""
    async with guarded(folder) as (client, guards):
        before = guards["SSL"]
        for validate_only in (True, False):
            code, text = await alter(client, option, folder / file, validate_only=validate_only)
            assert code == ErrorCode.INVALID_REQUEST
            assert text.startswith(f"{option}: {folder / file}")
            assert problem in text
        await guards.refresh()
        assert guards["SSL"] is before
        assert client.broker.config.value(KEYSTORE) == str(folder / "old.pem")


async def test_a_file_that_can_be_used_is_taken_over(folder: Path) -> None:
    async with guarded(folder) as (client, guards):
        before = guards["SSL"]
        assert await alter(client, KEYSTORE, folder / "new.pem", validate_only=True) == (ErrorCode.NONE, "")
        await guards.refresh()
        assert guards["SSL"] is before
        assert await alter(client, KEYSTORE, folder / "new.pem") == (ErrorCode.NONE, "")
        await guards.refresh()
        assert guards["SSL"] is not before
        assert await alter(client, KEYSTORE, None) == (ErrorCode.NONE, "")
        assert client.broker.config.value(KEYSTORE) == str(folder / "old.pem")


async def test_other_configs_may_change_while_a_file_is_not_readable(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes((folder / "new.pem").read_bytes())
    async with guarded(folder) as (client, _):
        assert (await alter(client, KEYSTORE, file))[0] == ErrorCode.NONE
        file.unlink()
        assert (await alter(client, "max.connections.per.ip", "100"))[0] == ErrorCode.NONE
        assert (await alter(client, KEYSTORE, file))[0] == ErrorCode.NONE, "as in Kafka, which compares the configs"
