"""The clients in other languages log in and are refused, as those in Python."""

from __future__ import annotations

import pytest
from tests.clients import matrix, program
from tests.clients.security.ground import CERTIFICATE_USER, MECHANISMS, Ground
from tests.clients.security.outcome import Use
from tests.clients.security.refusal import CASES, Case, check_refusal
from tests.clients.security.use_program import use_program

pytestmark = pytest.mark.slow

COUNT = 5
PROGRAMS = [
    pytest.param(
        use_program(made),
        id=name.replace(" ", "-"),
        marks=pytest.mark.needs(group),
    )
    for name, made, group in (
        ("kafka-clients 3.9", program.java_with_tokens(matrix.entry("kafka-clients 3.9").version, "Login"), "java"),
        ("kafka-clients 4", program.java_with_tokens(matrix.entry("kafka-clients 4").version, "Login"), "java"),
        ("franz-go", program.go("login"), "go"),
        ("kafkajs", program.node("login.js"), "node"),
    )
]
every_program = pytest.mark.parametrize("use", PROGRAMS)


@every_program
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_login(ground: Ground, use: Use, listener: str, mechanism: str, topic: str) -> None:
    access = ground.login(listener, mechanism)
    assert use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert ground.broker.principals[access.client_id] == {f"User:{access.user}"}


@every_program
@pytest.mark.parametrize("listener", ["SSL", "MUTUAL"])
def test_certificate(ground: Ground, use: Use, listener: str, topic: str) -> None:
    access = ground.certified(listener)
    assert use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert ground.broker.principals[access.client_id] == {f"User:{CERTIFICATE_USER}"}


@every_program
def test_no_certificate(ground: Ground, use: Use, topic: str) -> None:
    access = ground.access("SSL")
    assert use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert ground.broker.principals[access.client_id] == {"User:ANONYMOUS"}


@pytest.mark.parametrize("use", [param for param in PROGRAMS if str(param.id).startswith("kafka-clients")])
def test_unsecured_token(ground: Ground, use: Use, topic: str) -> None:
    access = ground.access("UNSECURED", mechanism="OAUTHBEARER", user="erin")
    assert use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert ground.broker.principals[access.client_id] == {"User:erin"}


@every_program
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_refusal(ground: Ground, use: Use, case: Case, topic: str) -> None:
    check_refusal(ground, use, case, topic)
