"""aiokafka's part of `login.md`."""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from tests.clients.security.access import Access, read_access
from tests.clients.security.outcome import DEADLINE_S, Outcome, Refused, print_outcome
from tests.clients.security.told import told_by


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka's types are not read
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def config(access: Access) -> dict[str, Any]:
    """The config that a client shares with others."""
    found: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap,
        "client_id": access.client_id,
        "security_protocol": access.protocol,
        "retry_backoff_ms": 50,
    }
    if access.has_tls:
        context = ssl.create_default_context(cafile=access.trust)
        if access.certificate:
            context.load_cert_chain(access.certificate, access.key)
        found["ssl_context"] = context
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
    with told_by("aiokafka") as told:
        try:
            return asyncio.run(asyncio.wait_for(_use(access, topic, count, pause_ms), DEADLINE_S))
        except KafkaError as error:
            raise Refused("; ".join([f"{type(error).__name__}: {error}", *dict.fromkeys(told)])) from None


async def _use(access: Access, topic: str, count: int, pause_ms: int) -> Outcome:
    shared = config(access)
    producer = AIOKafkaProducer(**shared)
    try:
        await producer.start()
        for index in range(count):
            await producer.send_and_wait(topic, f"{index}".encode())
            await asyncio.sleep(pause_ms / 1000)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(topic, **shared, group_id=f"{topic}-group", auto_offset_reset="earliest")
    try:
        await consumer.start()
        values = [(await consumer.getone()).value.decode() for _ in range(count)]
        await consumer.commit()
    finally:
        await consumer.stop()
    return Outcome(values)


if __name__ == "__main__":
    print_outcome(lambda: use(read_access(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
