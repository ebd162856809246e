"""What the history records of a send that failed, and in which of the topics with one name a value is."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.sample import make_batch
from tests.unit.sim.event import P

from tailrace.client.error import DeliveryTimeout
from tailrace.client.produce.request import MAY_BE_WRITTEN
from tailrace.coordination.layout import node_of
from tailrace.coordination.store import Change, Node
from tailrace.machines.controller.record import TopicHidden, TopicRecord
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tailrace.sim.history import Recorder
from tailrace.sim.incarnation import Incarnations
from tailrace.sim.refusal import settle_failed_send

ONE, OTHER = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ApiError(ErrorCode.MESSAGE_TOO_LARGE, "too large"), "fail"),
        (ApiError(ErrorCode.INVALID_TIMESTAMP, "too old"), "fail"),
        (ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"too large; {MAY_BE_WRITTEN}"), "info"),
        (ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "appended"), "info"),
        (DeliveryTimeout("late"), "info"),
    ],
)
def test_only_a_definite_refusal_is_a_failure(error: Exception, outcome: str) -> None:
    recorder = Recorder(lambda: 0.0)
    settle_failed_send(recorder.invoke("producer", "send", partition=P, value="a"), error)
    assert recorder.events[-1]["type"] == outcome


def _commit(incarnations: Incarnations, record: TopicRecord | TopicHidden) -> None:
    path, value = node_of(record)
    incarnations.committed([Change(path, Node(value, 0))])


def _acknowledge(incarnations: Incarnations, topic_id: UUID, value: bytes, error_code: int = 0) -> None:
    asked = ProduceRequestPartition(index=0, records=memoryview(make_batch(value)))
    answer = ProduceResponsePartition(index=0, error_code=error_code, base_offset=0)
    broker: Any = SimpleNamespace(replicas=list)
    incarnations.answered(
        broker,
        ProduceRequest(topic_data=[ProduceRequestTopic(topic_id=topic_id, partition_data=[asked])]),
        ProduceResponse(responses=[ProduceResponseTopic(topic_id=topic_id, partition_responses=[answer])]),
    )


def test_each_topic_with_the_name_has_a_number() -> None:
    incarnations, seen = Incarnations("remade"), list[int]()
    incarnations.on_next = lambda: seen.append(incarnations.current)
    _commit(incarnations, TopicRecord("remade", ONE, ((1, 2),)))
    _commit(incarnations, TopicRecord("remade", ONE, ((1, 2), (2, 1))))  # it has grown
    assert (incarnations.number, incarnations.is_there) == (1, True)
    _commit(incarnations, TopicHidden("remade", ONE))
    incarnations.committed([Change("/brokers/topics/remade", None)])
    assert (incarnations.number, incarnations.current, incarnations.is_there) == (1, 2, False)
    _commit(incarnations, TopicRecord("remade", OTHER, ((1, 2),)))
    _commit(incarnations, TopicRecord("another", UUID(int=3), ((1, 2),)))
    assert (incarnations.number, incarnations.is_there) == (2, True)
    assert seen == [1, 2, 2]


def test_a_value_is_in_the_topics_whose_leaders_acknowledged_it() -> None:
    incarnations = Incarnations("remade")
    for topic_id in (ONE, OTHER):
        _commit(incarnations, TopicRecord("remade", topic_id, ((1, 2),)))
    _acknowledge(incarnations, ONE, b"a")
    _acknowledge(incarnations, OTHER, b"a")
    _acknowledge(incarnations, OTHER, b"b")
    _acknowledge(incarnations, OTHER, b"c", ErrorCode.MESSAGE_TOO_LARGE)
    assert [incarnations.acknowledged_in(value) for value in ("a", "b", "c")] == [{1, 2}, {2}, set()]
