"""The clients in Python log in by every mechanism and protocol that they have; `login.md` says what they do."""

from __future__ import annotations

import pytest
from tests.clients.security import use_aiokafka, use_confluent, use_kafka_python, use_tailrace
from tests.clients.security.ground import CERTIFICATE_USER, MECHANISMS, Ground
from tests.clients.security.outcome import Use

COUNT = 5
CLIENTS = {
    "confluent-kafka": use_confluent.use,
    "kafka-python": use_kafka_python.use,
    "aiokafka": use_aiokafka.use,
    "tailrace": use_tailrace.use,
}
every_client = pytest.mark.parametrize("use", [pytest.param(use, id=name) for name, use in CLIENTS.items()])


@every_client
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_login(ground: Ground, use: Use, listener: str, mechanism: str, topic: str) -> None:
    access = ground.login(listener, mechanism)
    assert use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert ground.broker.principals[access.client_id] == {f"User:{access.user}"}


@every_client
@pytest.mark.parametrize("listener", ["SSL", "MUTUAL"])
def test_certificate(ground: Ground, use: Use, listener: str, topic: str) -> None:
    access = ground.certified(listener)
    assert use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert ground.broker.principals[access.client_id] == {f"User:{CERTIFICATE_USER}"}


@every_client
@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_nobody(ground: Ground, use: Use, listener: str, topic: str) -> None:
    access = ground.access(listener)
    assert use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert ground.broker.principals[access.client_id] == {"User:ANONYMOUS"}


def test_unsecured_token_of_librdkafka(ground: Ground, topic: str) -> None:
    access = ground.access("UNSECURED", mechanism="OAUTHBEARER", user="erin")
    assert use_confluent.use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert ground.broker.principals[access.client_id] == {"User:erin"}
