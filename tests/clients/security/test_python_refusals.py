"""The clients in Python are refused for each reason: what they tell their user, and what the broker logs."""

from __future__ import annotations

import pytest
from tests.clients.security import use_confluent, use_tailrace
from tests.clients.security.ground import Ground
from tests.clients.security.outcome import Use
from tests.clients.security.refusal import CASES, Case, check_refusal
from tests.clients.security.use_program import use_module

every_client = pytest.mark.parametrize(
    "use",
    [
        pytest.param(use_confluent.use, id="confluent-kafka"),
        pytest.param(use_tailrace.use, id="tailrace"),
        # In processes of their own, because they leave sockets behind.
        pytest.param(use_module("use_aiokafka"), id="aiokafka"),
        # Slow, because it tries again for two seconds.
        pytest.param(use_module("use_kafka_python"), id="kafka-python", marks=pytest.mark.slow),
    ],
)


@every_client
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_refusal(ground: Ground, use: Use, case: Case, topic: str) -> None:
    check_refusal(ground, use, case, topic)
