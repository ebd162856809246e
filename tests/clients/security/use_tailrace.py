"""Our own client's part of `login.md`."""

from __future__ import annotations

import time
from typing import Any

from tests.clients.security.access import Access
from tests.clients.security.outcome import DEADLINE_S, Outcome, Refused

from tailrace import Consumer, Producer
from tailrace.client.error import AuthenticationError, BootstrapError

_MODULES = "org.apache.kafka.common.security."


def config(access: Access) -> dict[str, Any]:
    """The config that a client shares with others."""
    found = {"client.id": access.client_id, "security.protocol": access.protocol}
    if access.has_tls:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.trust}
    if access.key:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": access.both}
    if access.has_sasl:
        found |= {"sasl.mechanism": access.mechanism}
    if access.has_sasl and access.mechanism != "OAUTHBEARER":
        module = "plain.PlainLoginModule" if access.mechanism == "PLAIN" else "scram.ScramLoginModule"
        token = ' tokenauth="true"' if access.is_delegation_token else ""
        login = f'username="{access.user}" password="{access.password}"{token}'
        found["sasl.jaas.config"] = f"{_MODULES}{module} required {login};"
    return found


def use(access: Access, topic: str, count: int, pause_ms: int) -> Outcome:
    """Write and read."""
    shared: dict[str, Any] = {"config": config(access)}
    if access.token:
        shared["oauth_token"] = lambda: access.token
    try:
        return _use(access.bootstrap, shared, topic, count, pause_ms)
    except (AuthenticationError, BootstrapError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from None


def _use(bootstrap: str, shared: dict[str, Any], topic: str, count: int, pause_ms: int) -> Outcome:
    with Producer(bootstrap, **shared) as producer:
        for index in range(count):
            producer.send(topic, f"{index}".encode()).result(DEADLINE_S)
            time.sleep(pause_ms / 1000)
    values: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    with Consumer(bootstrap, **shared, group_id=f"{topic}-group", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(topic)
        while len(values) < count and time.monotonic() < deadline:
            values += [(record.value or b"").decode() for record in consumer.poll(0.2)]
        consumer.commit()
    return Outcome(values)
