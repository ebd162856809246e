"""Asking the coordinator of a transaction that is on another broker."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest
from tests.logged import logged

from tailrace.base.clock import SystemClock
from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import PartitionRecord, TopicRecord
from tailrace.protocol.errors import ErrorCode
from tailrace.runtime.coordinator.topic import TRANSACTION_TOPIC
from tailrace.runtime.peer import Peer
from tailrace.runtime.transaction.verification import Question, TransactionVerification

HERE, THERE = 1, 2


async def test_a_bug_on_the_way_is_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever asked would have waited for ever."""
    image = ClusterImage()
    image.replay(TopicRecord(TRANSACTION_TOPIC, UUID(int=1), ((THERE,),)))
    image.replay(PartitionRecord(TRANSACTION_TOPIC, 0, THERE, 0, (THERE,)))

    def peer_of(_broker_id: int) -> Peer:
        raise ValueError("a bug")

    verification = TransactionVerification(HERE, BrokerConfig, SystemClock(), image, cast("Any", None), peer_of)
    async with asyncio.timeout(60):
        codes = await verification.ask(Question("x", 7, 0, [("t", 0), ("t", 1)], is_adding=True))
    assert set(codes.values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert "a bug" in logged(caplog)
    await verification.stop()
