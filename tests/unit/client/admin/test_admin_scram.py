"""Users with SCRAM credentials through the client."""

import uuid
from functools import partial

import pytest
from tests.eventual import eventually

import tailrace
from tailrace.client.admin.scram import ScramCredential
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.memory import MemoryStore
from tailrace.machines.controller.entity import entity_name
from tailrace.machines.controller.record import ConfigKind
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.security.scram.credential import make_credential, parse_credential
from tailrace.security.scram.mechanism import SCRAM_SHA_512
from tailrace.server.server import start_server
from tailrace.storage.memory_fs import MemoryFileSystem


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4().hex[:12]}"


def code_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, ApiError)
    return outcome.code


def test_a_user_gets_and_loses_credentials(bootstrap: str, user: str) -> None:
    with tailrace.Admin(bootstrap) as admin:
        new = [tailrace.NewScramCredential(user, "secret", iterations=5000)]
        assert admin.alter_user_scram_credentials(new) == {user: None}
        more = [tailrace.NewScramCredential(user, "other", "SCRAM-SHA-256")]
        assert admin.alter_user_scram_credentials(more) == {user: None}
        found = [ScramCredential("SCRAM-SHA-256", 4096), ScramCredential("SCRAM-SHA-512", 5000)]
        describe = partial(admin.describe_user_scram_credentials, [user])
        assert eventually(describe, lambda seen: seen == {user: found}) == {user: found}
        assert admin.describe_user_scram_credentials()[user] == found
        assert admin.describe_user_scram_credentials([]) == {}
        for mechanism in ("SCRAM-SHA-256", "scram-sha-512"):
            assert admin.alter_user_scram_credentials(deletions=[(user, mechanism)]) == {user: None}
        after = eventually(describe, lambda seen: isinstance(seen[user], ApiError))
        assert code_of(after[user]) is ErrorCode.RESOURCE_NOT_FOUND
        missing = admin.alter_user_scram_credentials(deletions=[(user, "SCRAM-SHA-256")])
        assert code_of(missing[user]) is ErrorCode.RESOURCE_NOT_FOUND
        few = admin.alter_user_scram_credentials([tailrace.NewScramCredential(user, "secret", iterations=1)])
        assert code_of(few[user]) is ErrorCode.UNACCEPTABLE_CREDENTIAL


async def test_the_password_fits_the_credential_that_the_broker_stores(user: str) -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data", "node.id": "1"})
    server = await start_server(config, fs=MemoryFileSystem(), store=MemoryStore())
    try:
        async with tailrace.aio.Admin(f"127.0.0.1:{server.endpoints[0].port}") as admin:
            new = tailrace.NewScramCredential(user, "pässword")
            assert await admin.alter_user_scram_credentials([new]) == {user: None}
            assert "pässword" not in repr(new)
        configs = server.broker.image.config(ConfigKind.USER, entity_name(user))
    finally:
        await server.stop()
    stored = parse_credential(configs["SCRAM-SHA-512"])
    assert stored == make_credential(SCRAM_SHA_512, "pässword", stored.salt, 4096)
    assert len(stored.salt) == 26
    assert stored.salt.isalnum()


def test_what_is_no_credential_is_not_sent(bootstrap: str) -> None:
    with tailrace.Admin(bootstrap) as admin:
        with pytest.raises(ValueError, match="'PLAIN' is not a SCRAM mechanism; there are SCRAM-SHA-256 and"):
            admin.alter_user_scram_credentials([tailrace.NewScramCredential("u", "secret", "PLAIN")])
        with pytest.raises(ValueError, match="the password of u is empty"):
            admin.alter_user_scram_credentials([tailrace.NewScramCredential("u", "")])
