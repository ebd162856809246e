"""A broker with delegation tokens for tests of the client and the command line, and the configs of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.delegation_token.ground import MECHANISM, PASSWORD, Ground, properties
from tests.port import free_ports

from tailrace.testing import Broker

_MODULE = "org.apache.kafka.common.security"


@contextmanager
def secured_broker(*, has_key: bool = True) -> Iterator[str]:
    """Start the broker with its users and their rights; yield the address for clients that log in."""
    port, inner_port = free_ports(2)
    with Broker(properties(port, inner_port, has_key=has_key)):
        ground = Ground(port, inner_port)
        try:
            ground.give_rights()
        finally:
            ground.close()
        yield f"127.0.0.1:{port}"


def user_config(name: str) -> dict[str, str]:
    """Return the configs of a client that logs in with a password."""
    jaas = f'{_MODULE}.plain.PlainLoginModule required username="{name}" password="{PASSWORD}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}


def holder_config(token_id: str, hmac: str) -> dict[str, str]:
    """Return the configs of a client that logs in with a token."""
    login = f'username="{token_id}" password="{hmac}" tokenauth="true"'
    jaas = f"{_MODULE}.scram.ScramLoginModule required {login};"
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM, "sasl.jaas.config": jaas}
