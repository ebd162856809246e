"""Kafka's own tools for users, ACLs and delegation tokens, unchanged, on one broker and on three.

Each command goes to the next broker, so a change that another broker did not learn of would show.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path

import pytest
from bench.kafka import Unavailable, kafka_classpath

from tailrace.config.broker import BrokerConfig
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.server.server import Server, start_server
from tailrace.storage.memory_fs import MemoryFileSystem

pytestmark = pytest.mark.slow

ACLS, TOKENS = "org.apache.kafka.tools.AclCommand", "org.apache.kafka.tools.DelegationTokenCommand"
CONFIGS, TOPICS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.TopicCommand"
OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "the secret of the cluster",
    "log.dirs": "/data",
}
TOOL_TIMEOUT_S = 120


class Tools:
    """Kafka's tools, each call at the next broker."""

    def __init__(self, servers: list[Server], folder: Path) -> None:
        self._folder = folder
        self._servers = cycle(servers)
        try:
            self._classpath = kafka_classpath()
        except Unavailable as reason:
            pytest.skip(str(reason))

    async def run(self, tool: str, *arguments: str, login: Path | None = None) -> tuple[int, str]:
        """The exit status and everything that a tool prints."""
        listener = "PLAINTEXT" if login is None else "SASL_PLAINTEXT"
        endpoints = next(self._servers).endpoints
        port = next(endpoint.port for endpoint in endpoints if endpoint.name == listener)
        where = ["--bootstrap-server", f"127.0.0.1:{port}"]
        who = [] if login is None else ["--command-config", str(login)]
        command = self._classpath.command(tool, *where, *who, *arguments)
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), TOOL_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            raise
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def succeed(self, tool: str, *arguments: str, login: Path | None = None) -> str:
        """What a tool prints that must succeed."""
        status, output = await self.run(tool, *arguments, login=login)
        assert status == 0, output
        return output

    def login(self, name: str, secret: str, *, is_token: bool = False) -> Path:
        """A file with the configs of a client that logs in."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        jaas = f'{module} username="{name}" password="{secret}"{" tokenauth=true" if is_token else ""};'
        file = self._folder / f"{name}.properties"
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={jaas}\n")
        return file


@asynccontextmanager
async def tools_at(broker_count: int, folder: Path) -> AsyncIterator[Tools]:
    """Kafka's tools and new brokers for them."""
    tree, servers = MemoryTree(), list[Server]()
    try:
        for broker_id in range(1, broker_count + 1):
            config = BrokerConfig({**OPTIONS, "node.id": str(broker_id)})
            servers.append(await start_server(config, fs=MemoryFileSystem(), store=MemoryStore(tree)))
        yield Tools(servers, folder)
    finally:
        await asyncio.gather(*(server.stop() for server in servers))


@pytest.mark.parametrize("broker_count", [1, 3])
async def test_kafka_configs_changes_users(broker_count: int, tmp_path: Path) -> None:
    async with tools_at(broker_count, tmp_path) as kafka:
        alice = ("--entity-type", "users", "--entity-name", "alice")
        added = ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]", *alice)
        assert "Completed updating config for user alice." in await kafka.succeed(CONFIGS, *added)
        described = await kafka.succeed(CONFIGS, "--describe", *alice)
        assert "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192" in described
        wrong = ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=1,password=secret]", *alice)
        status, output = await kafka.run(CONFIGS, *wrong)
        assert status == 1
        assert "Iterations 1 is less than the minimum 4096" in output
        # The user can log in, on every broker, until it is deleted.
        login = kafka.login("alice", "secret")
        for _ in range(broker_count):
            await kafka.succeed(TOPICS, "--list", login=login)
        await kafka.succeed(CONFIGS, "--alter", "--delete-config", "SCRAM-SHA-256", *alice)
        assert "SCRAM" not in await kafka.succeed(CONFIGS, "--describe", *alice)
        status, output = await kafka.run(TOPICS, "--list", login=login)
        assert status == 1
        assert "Authentication failed" in output


@pytest.mark.parametrize("broker_count", [1, 3])
async def test_kafka_acls_changes_acls(broker_count: int, tmp_path: Path) -> None:
    async with tools_at(broker_count, tmp_path) as kafka:
        alice = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        assert "Adding ACLs for resource" in await kafka.succeed(ACLS, "--add", *alice)
        prefixed = ("--resource-pattern-type", "prefixed", "--group", "team-")
        await kafka.succeed(ACLS, "--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", *prefixed)
        listed = await kafka.succeed(ACLS, "--list")
        assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in listed
        assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in listed
        assert "resourceType=GROUP, name=team-, patternType=PREFIXED" in listed
        assert "(principal=User:*, host=10.0.0.1, operation=ALL, permissionType=DENY)" in listed
        matching = await kafka.succeed(ACLS, "--list", "--resource-pattern-type", "match", "--group", "team-a")
        assert "name=team-" in matching
        assert "orders" not in matching
        await kafka.succeed(ACLS, "--remove", "--force", *alice)
        assert "orders" not in await kafka.succeed(ACLS, "--list")


@pytest.mark.parametrize("broker_count", [1, 3])
async def test_kafka_delegation_tokens_changes_tokens(broker_count: int, tmp_path: Path) -> None:
    async with tools_at(broker_count, tmp_path) as kafka:
        for name in ("alice", "bob"):
            user = ("--entity-type", "users", "--entity-name", name)
            await kafka.succeed(CONFIGS, "--alter", "--add-config", "SCRAM-SHA-256=[password=secret]", *user)
        alice, bob = kafka.login("alice", "secret"), kafka.login("bob", "secret")
        new = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        token_id, secret = _token(await kafka.succeed(TOKENS, *new, login=alice))
        described = await kafka.succeed(TOKENS, "--describe", "--owner-principal", "User:alice", login=alice)
        assert _token(described) == (token_id, secret)
        renewed = await kafka.succeed(TOKENS, "--renew", "--renew-time-period", "-1", "--hmac", secret, login=bob)
        assert "Completed renew operation." in renewed
        # The token logs in as its owner, on every broker, and begets no other token.
        token = kafka.login(token_id, secret, is_token=True)
        for _ in range(broker_count):
            await kafka.succeed(TOPICS, "--list", login=token)
        status, output = await kafka.run(TOKENS, "--create", "--max-life-time-period", "-1", login=token)
        assert status == 1
        assert "Delegation Token requests are not allowed" in output
        await kafka.succeed(TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", secret, login=alice)
        assert token_id not in await kafka.succeed(TOKENS, "--describe", login=alice)
        status, output = await kafka.run(TOPICS, "--list", login=token)
        assert status == 1
        assert "Authentication failed" in output


def _token(output: str) -> tuple[str, str]:
    """The id and the HMAC of the only token in the output of the tool."""
    (found,) = [line.split() for line in output.splitlines() if re.match(r"[\w-]{22}\s", line)]
    return found[0], found[1]
