"""kafka-python's part of `login.md`."""

from __future__ import annotations

import sys
import time
from typing import Any

from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider
from tests.clients.security.access import Access, read_access
from tests.clients.security.outcome import DEADLINE_S, Outcome, Refused, print_outcome
from tests.clients.security.told import told_by

from kafka import KafkaConsumer, KafkaProducer


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def config(access: Access) -> dict[str, Any]:
    """The config that a client shares with others."""
    found: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap,
        "client_id": access.client_id,
        "security_protocol": access.protocol,
        "bootstrap_timeout_ms": 2000,  # it tries again for as long, whatever it is told
        "reconnect_backoff_ms": 50,
    }
    if access.has_tls:
        found |= {
            "ssl_cafile": access.trust,
            "ssl_certfile": access.certificate or None,
            "ssl_keyfile": access.key or None,
        }
    if access.mechanism == "OAUTHBEARER":
        found |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": _Token(access.token)}
    elif access.has_sasl:
        found |= {
            "sasl_mechanism": access.mechanism,
            "sasl_plain_username": access.user,
            "sasl_plain_password": access.password,
        }
    return found


def use(access: Access, topic: str, count: int, pause_ms: int) -> Outcome:
    """Write and read."""
    with told_by("kafka") as told:
        try:
            return _use(config(access), topic, count, pause_ms)
        except KafkaError as error:
            raise Refused("; ".join([f"{type(error).__name__}: {error}", *dict.fromkeys(told)])) from None


def _use(shared: dict[str, Any], topic: str, count: int, pause_ms: int) -> Outcome:
    producer = KafkaProducer(**shared)
    try:
        for index in range(count):
            producer.send(topic, f"{index}".encode()).get(DEADLINE_S)
            time.sleep(pause_ms / 1000)
    finally:
        producer.close()
    consumer = KafkaConsumer(
        topic,
        **{**shared, "group_id": f"{topic}-group", "auto_offset_reset": "earliest"},
        consumer_timeout_ms=60_000,
    )
    try:
        values = [record.value.decode() for _, record in zip(range(count), consumer, strict=False)]
        consumer.commit()
    finally:
        consumer.close()
    return Outcome(values)


if __name__ == "__main__":
    print_outcome(lambda: use(read_access(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
