"""Unusual requests, and the answers of Apache Kafka that a client may rely on.

`kafka_answers.json` is what a real Kafka said (`python -m tests.clients.ask -` records it).
`tailrace_answers.json` lists where Tailrace answers otherwise, with the reason. With
TAILRACE_TEST_TARGET=kafka the recorded answers themselves are put to the test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.clients.ask.questions import QUESTIONS, Asker
from tests.clients.conftest import TARGET

HERE = Path(__file__).parent
KAFKA = json.loads((HERE / "kafka_answers.json").read_text())["answers"]
DIFFERENCES = json.loads((HERE / "tailrace_answers.json").read_text())
# Compared below, one by one: Tailrace has fewer APIs, features and configs than Kafka.
COMPARED_IN_PART = {"config.topic_defaults", "config.versions", "config.features_in_v3"}

# Versions of Kafka 4.4, which is not out yet: DeleteGroups 3 has a place for a message, TxnOffsetCommit 6 topic ids.
# InitProducerId 6 is in Kafka for two-phase commit (KIP-939), and shown to nobody unless unstable versions are on.
# Envelope is of Kafka's controllers, which have a listener of their own.
NEWER = {"42": [0, 3], "28": [0, 6], "22": [0, 6], "58": [0, 0]}


def _ask(name: str, bootstrap: str) -> Any:
    """The answer as it is after a trip through JSON, so that tuples and lists are the same."""
    return json.loads(json.dumps(QUESTIONS[name](Asker(bootstrap)), default=str))


@pytest.mark.parametrize("name", [name for name in QUESTIONS if TARGET == "kafka" or name not in COMPARED_IN_PART])
def test_answer(name: str, broker_bootstrap: str) -> None:
    """Kafka's answer, or the one that we chose instead."""
    expected = KAFKA[name]["answer"]
    if TARGET == "tailrace" and name in DIFFERENCES:
        expected = DIFFERENCES[name]["answer"]
    assert _ask(name, broker_bootstrap) == expected, QUESTIONS[name].__doc__


def test_every_question_has_a_recorded_answer() -> None:
    """A question without Kafka's answer proves nothing."""
    assert set(KAFKA) == set(QUESTIONS)


def test_every_difference_is_one_and_has_a_reason() -> None:
    """An entry that no longer differs must go."""
    for name, difference in DIFFERENCES.items():
        assert difference["answer"] != KAFKA[name]["answer"], name
        assert difference["why"], name


def test_topic_configs_have_kafka_s_values_and_types(broker_bootstrap: str) -> None:
    """Every config that the broker names is one of Kafka's, with Kafka's default, source and type."""
    kafka = KAFKA["config.topic_defaults"]["answer"]
    # Kafka itself sets min.insync.replicas for the whole cluster, so its source is not "default" there.
    kafka["min.insync.replicas"][1] = 5
    answered = _ask("config.topic_defaults", broker_bootstrap)
    answered["min.insync.replicas"][1] = 5
    assert answered == {name: kafka[name] for name in answered}
    assert "retention.ms" in answered


def test_versions_are_within_kafka_s(broker_bootstrap: str) -> None:
    """No version that a client could not know from Kafka."""
    kafka = {**KAFKA["config.versions"]["answer"]["apis"], **NEWER}
    for key, (low, high) in _ask("config.versions", broker_bootstrap)["apis"].items():
        kafka_low, kafka_high = kafka[key]
        assert low == kafka_low, f"API {key} starts at {low}; Kafka's starts at {kafka_low}"
        assert high <= kafka_high, f"API {key} goes to {high}; Kafka's to {kafka_high}"
