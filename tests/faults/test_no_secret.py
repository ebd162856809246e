"""No password in a log line, an answer, an output of a command, a process list, a metric or the metadata.

A broker process has a secret of every kind, is used with right and wrong ones, and is asked for all that it tells.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.clients.security.token import TokenIssuer
from tests.faults.readiness import has_output
from tests.port import free_ports
from tests.unit.cli.command import called
from tests.unit.sample import make_batch
from tests.unit.security.tls.tls_files import Authority
from tests.unit.server.handlers.peer import produce_request

from tailrace.client.address import Address
from tailrace.client.connection import Connection
from tailrace.client.error import AuthenticationError
from tailrace.client.setting import ClientSettings
from tailrace.protocol.message import Message
from tailrace.protocol.messages.config import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from tailrace.protocol.messages.delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tailrace.protocol.messages.produce import ProduceResponse

pytestmark = pytest.mark.slow

R = TypeVar("R", bound=Message)

MODULE = "org.apache.kafka.common.security"
SECRETS = {
    "the password of the key store": "kp-7d1f-store",
    "the password of the broker": "kp-7d1f-broker",
    "the password of a user of PLAIN": "kp-7d1f-plain",
    "the password of a user of SCRAM": "kp-7d1f-scram",
    "the key of delegation tokens": "kp-7d1f-token-key",
    "the digest for ZooKeeper": "kp-7d1f-zk-digest",
    "the password for ZooKeeper": "kp-7d1f-zk-sasl",
    "a wrong password": "kp-7d1f-wrong",
    "a value that AlterConfigs sets": "kp-7d1f-altered",
    "a value that AlterConfigs refuses": "kp-7d1f-refused",
    "the password for the schema registry": "kp-7d1f-registry",
    "the secret at the OAuth server": "kp-7d1f-oauth",
}
STORE, BROKER, PLAIN, SCRAM, TOKEN_KEY, ZK_DIGEST, ZK_SASL, WRONG, ALTERED, REFUSED, REGISTRY, OAUTH = SECRETS.values()
START = """
import logging
from tailrace.cli import daemon, server_log, start
configure = server_log.configure_logging
def everything():
    configure()
    logging.getLogger().setLevel(logging.DEBUG)
    logging.getLogger("tailrace").setLevel(logging.DEBUG)
    logging.getLogger("tailrace").debug("every level is logged")
for module in (daemon, server_log, start):
    if hasattr(module, "configure_logging"):
        module.configure_logging = everything
from tailrace.cli.main import main
main()
"""
"""The program, with a log of every level."""


class World:
    """The broker, what clients were told, and what commands printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.metrics_port, self.pem_port, nothing_port = free_ports(4)
        self.registry = f"http://127.0.0.1:{nothing_port}"
        self.issuer, self.stranger = TokenIssuer(), TokenIssuer()
        self.answers: list[Message] = []
        self.texts: list[str] = []
        self.derived: dict[str, str] = {}

    def settings(self, mechanism: str, user: str, password: str, more: str = "") -> dict[str, str]:
        module = f"{MODULE}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{MODULE}.scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}"{more};',
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }

    def token_settings(self, issuer: TokenIssuer, what: str) -> dict[str, str]:
        """The settings of a client with a signed token, whose signature nothing may show."""
        token = issuer.token("olga")
        file = self.folder / f"{len(self.derived)}.token"
        file.write_text(token)
        self.derived[what] = token.rpartition(".")[2]
        settings = self.settings("PLAIN", "", "")
        del settings["sasl.jaas.config"]
        return {**settings, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": file.as_uri()}

    def command_config(self, name: str, settings: dict[str, str]) -> list[str]:
        file = self.folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return ["--bootstrap-server", f"localhost:{self.port}", "--command-config", str(file)]

    def run(self, *arguments: str, words: str = "") -> int:
        """Run a command and keep what it printed."""
        status, output, complaints = called(*arguments, words=words)
        self.texts += [output, complaints]
        return status

    async def ask(
        self, settings: dict[str, str], *asked: tuple[Message, type[R]], version_max: int | None = None
    ) -> list[R]:
        """Log in, and keep the answers to some requests."""
        security = ClientSettings(None, settings, {}).make_security()
        connection = await Connection.open(Address("localhost", self.port), security=security)
        try:
            replies = [
                await connection.request(request, reply_type, version_max=version_max) for request, reply_type in asked
            ]
        finally:
            await connection.close()
        self.answers += replies
        return replies


def _properties(world: World) -> dict[str, str]:
    authority = Authority()
    (world.folder / "ca.pem").write_text(authority.pem)
    (world.folder / "users").write_text(f"paul={PLAIN}\n")
    world.issuer.write(world.folder / "keys.json")
    in_texts = authority.issue("localhost")
    world.derived["a private key in an option"] = in_texts.key_pem().splitlines()[2]
    return {
        "listeners": f"SASL_SSL://localhost:{world.port},PEM://localhost:{world.pem_port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,PEM:SSL",
        "listener.name.pem.ssl.keystore.type": "PEM",
        "listener.name.pem.ssl.keystore.key": in_texts.key_pem().replace("\n", "\\n"),
        "listener.name.pem.ssl.keystore.certificate.chain": in_texts.certificate_pem.replace("\n", "\\n"),
        "sasl.oauthbearer.jwks.endpoint.url": (world.folder / "keys.json").as_uri(),
        "sasl.oauthbearer.client.credentials.client.secret": OAUTH,
        "confluent.schema.registry.url": world.registry,
        "confluent.basic.auth.user.info": f"broker:{REGISTRY}",
        "log.dirs": str(world.folder / "data"),
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{MODULE}.plain.PlainLoginModule required username="broker" password="{BROKER}" user_broker="{BROKER}" '
            f'user_paul="{PLAIN}";'
        ),
        "listener.name.sasl_ssl.ssl.keystore.location": authority.issue("localhost").write_pkcs12(
            world.folder / "broker.p12", STORE
        ),
        "listener.name.sasl_ssl.ssl.keystore.password": STORE,
        "ssl.key.password": STORE,
        "delegation.token.secret.key": TOKEN_KEY,
        "tailrace.zookeeper.digest": f"tailrace:{ZK_DIGEST}",
        "tailrace.zookeeper.sasl.jaas.config": (
            f'org.apache.zookeeper.server.auth.DigestLoginModule required username="tailrace" password="{ZK_SASL}";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker",
        "tailrace.metrics.listener": f"127.0.0.1:{world.metrics_port}",
    }


@contextmanager
def running(world: World) -> Iterator[subprocess.Popen[bytes]]:
    config, program = world.folder / "server.properties", world.folder / "start.py"
    config.write_text("".join(f"{name}={value}\n" for name, value in _properties(world).items()))
    program.write_text(START)
    with (world.folder / "log").open("wb") as log:
        command = [sys.executable, str(program), "start", "--config", str(config)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            assert has_output(process.stdout, 120), (world.folder / "log").read_text()[-2000:]
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
            world.texts.append(process.stdout.read().decode())
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def use_commands(world: World) -> None:
    admin = world.command_config("admin", world.settings("PLAIN", "broker", BROKER))
    (world.folder / "password").write_text(f"{SCRAM}\n")
    assert world.run("user", "add", "sam", "--password-file", str(world.folder / "password"), "--json", *admin) == 0
    for arguments in (
        ("user", "list", "--json"),
        ("topic", "create", "things"),
        ("topic", "create", "framed", "--config", "confluent.value.schema.validation=true"),
        ("topic", "describe", "things", "--json"),
        ("acl", "add", "--principal", "User:sam", "--operation", "write", "--topic", "things"),
        ("acl", "list", "--json"),
    ):
        assert world.run(*arguments, *admin) == 0, world.texts[-1]
    user = world.command_config("user", world.settings("SCRAM-SHA-512", "sam", SCRAM))
    assert world.run("produce", "things", *user, words="hello\n") == 0, world.texts[-1]
    for mechanism, name in (("PLAIN", "paul"), ("SCRAM-SHA-256", "sam")):
        wrong = world.command_config("wrong", world.settings(mechanism, name, WRONG))
        assert world.run("topic", "list", *wrong) != 0


def all_configs() -> DescribeConfigsRequest:
    described = [
        DescribeConfigsRequestResource(resource_type=4, resource_name=name, configuration_keys=None)
        for name in ("1", "")
    ]
    return DescribeConfigsRequest(resources=described, include_synonyms=True, include_documentation=True)


async def use_other_servers(world: World) -> None:
    """Log in with tokens of an issuer, and have the broker ask a schema registry that is not there."""
    framed = produce_request({("framed", 0): make_batch(b"\0\0\0\0\7x")})
    await world.ask(world.settings("PLAIN", "broker", BROKER), (framed, ProduceResponse), version_max=12)
    await world.ask(world.token_settings(world.issuer, "a signed token"), (all_configs(), DescribeConfigsResponse))
    with pytest.raises(AuthenticationError) as refused:
        await world.ask(world.token_settings(world.stranger, "a token that is refused"))
    world.texts += [str(refused.value), repr(refused.value)]


async def use_apis(world: World) -> None:
    admin, paul = world.settings("PLAIN", "broker", BROKER), world.settings("PLAIN", "paul", PLAIN)
    everything = all_configs()
    await world.ask(admin, (everything, DescribeConfigsResponse))
    # The second one does not open the key store, and the listener goes on as before.
    for name in ("ssl.truststore.password", "listener.name.sasl_ssl.ssl.keystore.password"):
        change = IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=ALTERED)
        resource = IncrementalAlterConfigsRequestResource(resource_type=4, resource_name="1", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        await world.ask(admin, (request, IncrementalAlterConfigsResponse))
    bad = AlterConfigsRequestConfig(name="listener.name.nowhere.ssl.keystore.password", value=REFUSED)
    replaced = AlterConfigsRequestResource(resource_type=4, resource_name="1", configs=[bad])
    (told,) = await world.ask(admin, (AlterConfigsRequest(resources=[replaced]), AlterConfigsResponse))
    assert told.responses[0].error_code, told
    mistaken = IncrementalAlterConfigsRequestConfig(name="ssl.key.password", config_operation=0, value=REFUSED)
    for kind, name in ((2, "things"), (32, "group")):
        resource = IncrementalAlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=[mistaken])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (refusal,) = await world.ask(admin, (request, IncrementalAlterConfigsResponse))
        assert refusal.responses[0].error_code, refusal
    await world.ask(admin, (everything, DescribeConfigsResponse))
    await world.ask(paul, (everything, DescribeConfigsResponse))
    (created,) = await world.ask(
        paul, (CreateDelegationTokenRequest(max_lifetime_ms=-1), CreateDelegationTokenResponse)
    )
    assert created.error_code == 0
    world.answers.remove(created)  # its holder learns the secret by it
    secret = base64.b64encode(created.hmac).decode()
    world.derived["the HMAC of a delegation token"] = secret
    world.derived["the HMAC of a delegation token, in hexadecimal digits"] = created.hmac.hex()
    holder = world.settings("SCRAM-SHA-256", created.token_id, secret, " tokenauth=true")
    await world.ask(holder, (everything, DescribeConfigsResponse))
    listed = (DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse)
    (tokens,) = await world.ask(admin, listed)
    world.answers.remove(tokens)  # as in Kafka, those who may see a token see its secret
    for mechanism, user, password in (
        ("PLAIN", "paul", WRONG),
        ("PLAIN", "nemo", WRONG),
        ("SCRAM-SHA-512", "sam", WRONG),
    ):
        with pytest.raises(AuthenticationError) as refused:
            await world.ask(world.settings(mechanism, user, password))
        world.texts += [str(refused.value), repr(refused.value)]
    for period_ms in (1000, -1):
        renewal = RenewDelegationTokenRequest(hmac=created.hmac, renew_period_ms=period_ms)
        await world.ask(paul, (renewal, RenewDelegationTokenResponse))
        expiry = ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=period_ms)
        await world.ask(paul, (expiry, ExpireDelegationTokenResponse))
    with pytest.raises(AuthenticationError) as refused:
        await world.ask(world.settings("SCRAM-SHA-256", created.token_id, WRONG, " tokenauth=true"))
    world.texts.append(str(refused.value))


def process_list(pid: int) -> str:
    """What `ps` shows of a process and its children, with their environments."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return "".join(Path(f"/proc/{each}/{name}").read_text() for each in pids for name in ("cmdline", "environ"))


def occurrences(secrets: dict[str, str], places: dict[str, str]) -> list[str]:
    """Return where a secret stands, plain or in base64."""
    found = []
    for what, secret in secrets.items():
        coded = base64.b64encode(secret.encode()).decode().rstrip("=")
        found += [f"{what} in {place}" for place, text in places.items() if secret in text or coded in text]
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the process list is read from /proc")
def test_no_secret_is_told_logged_or_stored(tmp_path: Path) -> None:
    world = World(tmp_path)
    with running(world) as process:
        use_commands(world)
        asyncio.run(use_apis(world))
        asyncio.run(use_other_servers(world))
        processes = process_list(process.pid)
        address = f"http://127.0.0.1:{world.metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=60) as page:
            metrics = page.read().decode()
    log = (tmp_path / "log").read_text()
    stored = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    places: dict[str, str] = {
        "the log": log,
        "the process list": processes,
        "the metrics": metrics,
        "an answer": repr(world.answers),
        "an output of a command": "\n".join(world.texts),
    }
    assert occurrences({**SECRETS, **world.derived}, places) == []
    files = {f"the file {path.name}": path.read_bytes().decode("latin-1") for path in stored}
    kept = {what: secret for what, secret in {**SECRETS, **world.derived}.items() if secret != ALTERED}
    assert occurrences(kept, files) == []
    holding = [path for path in stored if ALTERED in path.read_bytes().decode("latin-1")]
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in holding), "as in Kafka, it is stored as it is"
    _assert_that_all_of_it_happened(log, metrics, world)


def _assert_that_all_of_it_happened(log: str, metrics: str, world: World) -> None:
    """A search in empty texts would find nothing either."""
    assert "wrong password of user paul" in log
    assert "wrong password of sam" in log
    assert "by OAUTHBEARER: there is no ES256 key" in log
    assert f"cannot look up schema ids: {world.registry}" in log
    assert "DEBUG every level is logged" in log
    assert "tailrace_" in metrics
    audited = [json.loads(line).get("api") for line in log.splitlines() if line.startswith("{")]
    assert {"ALTER_USER_SCRAM_CREDENTIALS", "INCREMENTAL_ALTER_CONFIGS", "EXPIRE_DELEGATION_TOKEN"} <= set(audited)
    told: list[Any] = [answer for answer in world.answers if isinstance(answer, DescribeConfigsResponse)]
    sensitive = {
        config.name for answer in told for result in answer.results for config in result.configs if config.is_sensitive
    }
    assert {"ssl.truststore.password", "ssl.key.password", "delegation.token.secret.key"} <= sensitive
    assert {"confluent.basic.auth.user.info", "sasl.oauthbearer.client.credentials.client.secret"} <= sensitive
    assert occurrences({"it": "kp-7d1f"}, {"a text": "a kp-7d1f-text"}) == ["it in a text"]
