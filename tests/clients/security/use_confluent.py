"""confluent-kafka's part of `login.md`."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from tests.clients.security.access import Access
from tests.clients.security.outcome import DEADLINE_S, Outcome, Refused

_REFUSALS = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN)


def config(access: Access) -> dict[str, Any]:
    """The config that a client shares with others."""
    found: dict[str, Any] = {
        "bootstrap.servers": access.bootstrap,
        "client.id": access.client_id,
        "security.protocol": access.protocol,
        "ssl.ca.location": access.trust,
        "ssl.certificate.location": access.certificate,
        "ssl.key.location": access.key,
        "sasl.mechanism": access.mechanism,
        "sasl.username": access.user if access.mechanism != "OAUTHBEARER" else "",
        "sasl.password": access.password,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
    }
    if access.mechanism == "OAUTHBEARER" and access.token:
        found["oauth_cb"] = lambda _: (access.token, time.time() + 3600)
    elif access.mechanism == "OAUTHBEARER":
        found["enable.sasl.oauthbearer.unsecure.jwt"] = True
        found["sasl.oauthbearer.config"] = f"principal={access.user}"
    return {name: value for name, value in found.items() if value != ""}


def use(access: Access, topic: str, count: int, pause_ms: int) -> Outcome:
    """Write and read; the first error of a connection is the refusal."""
    errors: list[KafkaError] = []
    shared = {**config(access), "error_cb": errors.append}
    deadline = time.monotonic() + DEADLINE_S
    refusal = _write(Producer({**shared, "linger.ms": 0}), topic, count, pause_ms, errors, deadline)
    if refusal is not None:
        raise Refused(refusal)
    consumer = Consumer({**shared, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        values: list[str] = []
        while len(values) < count and time.monotonic() < deadline:
            if (message := consumer.poll(0.2)) is not None and not message.error():
                values.append((message.value() or b"").decode())
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        raise Refused(str(error.args[0])) from None
    finally:
        consumer.close()
    return Outcome(values)


def _write(
    producer: Producer, topic: str, count: int, pause_ms: int, errors: list[KafkaError], deadline: float
) -> str | None:
    """Write with a producer of which no error keeps hold: it would try to connect, and print, for as long.

    Returns why the client was refused.
    """
    for index in range(count):
        producer.produce(topic, f"{index}".encode())
        while producer.flush(0.05):
            is_over = time.monotonic() > deadline
            if is_over or any(error.code() in _REFUSALS for error in errors):
                producer.purge()
                producer.flush(0)
                reasons = "; ".join(dict.fromkeys(f"{error.name()}: {error.str()}" for error in errors))
                return f"neither written nor refused: {reasons}" if is_over else reasons
        time.sleep(pause_ms / 1000)
    return None
