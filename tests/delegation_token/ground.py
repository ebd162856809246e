"""A broker with delegation tokens, and the clients that ask it: users, one without a login, and holders of tokens."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any

from tests.authorization import grant
from tests.authorization.wire import Wire

from tailrace.protocol.message import Message
from tailrace.protocol.messages.acl import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    DescribeAclsRequest,
)
from tailrace.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tailrace.security.scram.client import ScramClient
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.security.scram.message import make_nonce

PASSWORD = "secret"  # noqa: S105  of users that exist in a test only
ANONYMOUS = "anonymous"
USERS = ("admin", "owner", "renewer", "stranger", "creator", "describer", "reader")
RIGHTS = {
    "creator": "CREATE_TOKENS USER User:owner",
    "describer": "DESCRIBE_TOKENS USER User:owner",
    "reader": "DESCRIBE DELEGATION_TOKEN *",
}
MECHANISM = "SCRAM-SHA-256"
DEADLINE_S = 60.0
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION, _ACL_VERSION = 1, 2, 3
_ANY = 1


def properties(port: int, inner_port: int, *, has_key: bool = True) -> dict[str, str]:
    """Return the configs of the broker; its tokens live two hours, and expire after one."""
    passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    module = "org.apache.kafka.common.security"
    configs = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.clients.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {passwords};",
        f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        "listeners": f"CLIENTS://127.0.0.1:{port},PLAINTEXT://127.0.0.1:{inner_port}",
        "delegation.token.max.lifetime.ms": "7200000",
        "delegation.token.expiry.time.ms": "3600000",
    }
    return configs | ({"delegation.token.secret.key": PASSWORD} if has_key else {})


class _PlainWire(Wire):
    """A connection without a login."""

    def _log_in(self, password: str) -> None:
        pass


class _TokenWire(Wire):
    """A connection that logs in with a token: the user is its id, and the password its HMAC in base64."""

    def _log_in(self, password: str) -> None:
        assert self.ask(SaslHandshakeRequest(mechanism=MECHANISM), _HANDSHAKE_VERSION).error_code == 0
        nonce = make_nonce(b"n" * 24)
        exchange = ScramClient(SCRAM_MECHANISMS[MECHANISM], self.user, password, nonce, is_token=True)
        message: bytes | None = exchange.start()
        while message is not None:
            reply = self.ask(SaslAuthenticateRequest(auth_bytes=message), _AUTHENTICATE_VERSION)
            assert reply.error_code == 0, reply
            message = exchange.respond(bytes(reply.auth_bytes))


class Ground:
    """The connections of all clients."""

    def __init__(self, port: int, inner_port: int) -> None:
        self._address, self._inner_address = f"127.0.0.1:{port}", f"127.0.0.1:{inner_port}"
        self._wires: dict[str, Wire] = {}

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    def ask(self, who: str, request: Message, version: int) -> Any:
        """Return the reply to a request of a user, or of the client without a login."""
        if who not in self._wires:
            is_plain = who == ANONYMOUS
            made = _PlainWire(self._inner_address, who, "") if is_plain else Wire(self._address, who, PASSWORD)
            self._wires[who] = made
        return self._wires[who].ask(request, version)

    def hang_up(self, who: str) -> None:
        """Forget the connection of a client, which the broker has closed."""
        self._wires.pop(who).close()

    def log_in_with_token(self, who: str, token_id: str, secret: bytes) -> None:
        """Let a client log in with a token, as soon as the broker knows it."""
        password = base64.b64encode(secret).decode()

        def is_refused() -> bool:
            try:
                self._wires[who] = _TokenWire(self._address, token_id, password)
            except AssertionError:
                return True
            return False

        until_not(is_refused)

    def give_rights(self) -> None:
        """Create the ACLs of the users, and wait until they hold."""
        bindings = [binding for user, text in RIGHTS.items() for binding in grant.bindings(text, user)]
        creations = [
            CreateAclsRequestCreation(
                resource_type=binding.resource,
                resource_name=binding.name,
                resource_pattern_type=binding.pattern_type,
                principal=binding.principal,
                host=binding.host,
                operation=binding.operation,
                permission_type=binding.permission,
            )
            for binding in bindings
        ]
        until_not(lambda: any(self._create(creations)))
        everything = DescribeAclsRequest(
            resource_type_filter=_ANY,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        until_not(lambda: len(self.ask("admin", everything, _ACL_VERSION).resources) < len(RIGHTS) - 1)

    def _create(self, creations: list[CreateAclsRequestCreation]) -> list[int]:
        reply = self.ask("admin", CreateAclsRequest(creations=creations), _ACL_VERSION)
        return [result.error_code for result in reply.results]


def until_not(is_wrong: Callable[[], object]) -> None:
    """Ask again until the answer is false."""
    deadline = time.monotonic() + DEADLINE_S
    while wrong := is_wrong():
        assert time.monotonic() < deadline, wrong
        time.sleep(0.02)
