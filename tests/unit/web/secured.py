"""A broker with users and ACLs, for services whose callers are users of the cluster.

It is Apache Kafka with TAILRACE_TEST_TARGET=kafka.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
from tests.port import free_ports
from tests.unit.client.security.secure_broker import running_kafka

from tailrace.aio import Admin
from tailrace.client.admin.acl import Acl, AclFilter
from tailrace.client.admin.scram import NewScramCredential
from tailrace.testing import Broker

PASSWORD = "pw-of-all-users-5c1d"  # noqa: S105  of users that exist in a test only
MECHANISM = "SCRAM-SHA-256"
SERVICE = "service"
_MODULES = "org.apache.kafka.common.security"
_PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CALLERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": f"{MECHANISM},PLAIN,OAUTHBEARER",
    f"listener.name.callers.{MECHANISM.lower()}.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    "listener.name.callers.plain.sasl.jaas.config": (
        f'{_MODULES}.plain.PlainLoginModule required user_plain="{PASSWORD}";'
    ),
    "listener.name.callers.oauthbearer.sasl.jaas.config": (
        f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{SERVICE}",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}


_UNSECURED = {"tailrace.sasl.oauthbearer.unsecured.enable": "true"}
"""Kafka takes tokens without a signature unless it is told not to."""


@dataclass(frozen=True)
class Secured:
    """The addresses of the broker: one for clients that log in, and one where every client is a super user."""

    address: str
    inner: str

    def client(self, mechanism: str = MECHANISM) -> dict[str, str]:
        """Return the configs of the service's own clients, without the address."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": SERVICE,
            "sasl.password": PASSWORD,
        }

    async def add_users(self, *names: str) -> None:
        credentials = [NewScramCredential(name, PASSWORD, MECHANISM) for name in names]
        async with Admin(self.inner) as admin:
            outcomes = await admin.alter_user_scram_credentials(credentials)
        assert [error for error in outcomes.values() if error] == []

    async def remove_user(self, name: str) -> None:
        async with Admin(self.inner) as admin:
            await admin.alter_user_scram_credentials(deletions=[(name, MECHANISM)])

    async def allow(self, user: str, operation: str, resource: str, name: str, **more: str) -> None:
        """Create an ACL; `more` has `pattern_type` and `permission`."""
        async with Admin(self.inner) as admin:
            outcomes = await admin.create_acls([Acl(resource, name, f"User:{user}", operation, **more)])
        assert [error for error in outcomes.values() if error] == []

    async def revoke(self, user: str) -> None:
        """Delete all ACLs of a user."""
        async with Admin(self.inner) as admin:
            await admin.delete_acls([AclFilter(principal=f"User:{user}")])


@contextlib.contextmanager
def secured_broker() -> Iterator[Secured]:
    """Run the broker during the block."""
    callers, inner = free_ports(2)
    addresses = f"PLAINTEXT://127.0.0.1:{inner},CALLERS://127.0.0.1:{callers}"
    listeners = {"listeners": addresses, "advertised.listeners": addresses}
    is_kafka = os.environ.get("TAILRACE_TEST_TARGET") == "kafka"
    properties = _PROPERTIES | listeners
    with running_kafka(properties) if is_kafka else Broker(properties | _UNSECURED):
        yield Secured(f"127.0.0.1:{callers}", f"127.0.0.1:{inner}")


def login(user: str, password: str = PASSWORD) -> httpx.BasicAuth:
    """Return the basic authentication of a user."""
    return httpx.BasicAuth(user, password)
