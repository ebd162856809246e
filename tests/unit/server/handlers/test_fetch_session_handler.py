"""Fetch sessions over the wire: what a session remembers, and what its replies name."""

import asyncio
from typing import Any

import pytest
from tests.settled import settled
from tests.unit.sample import NOW_MS, make_batch, records_of
from tests.unit.server.handlers.peer import Peer, fetch_request, peer

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
)
from tailrace.protocol.messages.topic import DeleteTopicsRequest

LONG_MS = 60_000


def values(partition: Any) -> list[bytes | None]:
    return [record.value for record in records_of(partition.records)]


async def fill(client: Peer, *counts: int) -> None:
    """A topic with so many batches of one record in its partitions."""
    await client.create("t", len(counts))
    for index, count in enumerate(counts):
        for _ in range(count):
            assert (await client.produce(make_batch(b"old"), index=index)).error_code == 0


class Session:
    """A client with a fetch session."""

    def __init__(self, client: Peer) -> None:
        self.client = client
        self.session_id = 0
        self.epoch = 0

    async def fetch(
        self, offsets: dict[tuple[str, int], int], forget: dict[str, list[int]] | None = None, **options: int
    ) -> dict[tuple[str, int], Any]:
        """The partitions that the reply names."""
        request = fetch_request(offsets, session_id=self.session_id, session_epoch=self.epoch, **options)
        request.forgotten_topics_data = [
            FetchRequestForgottenTopic(topic=topic, partitions=indexes) for topic, indexes in (forget or {}).items()
        ]
        response = await self.client.ask(request, 12)
        assert response.error_code == 0, response
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        return {(topic.topic, p.partition_index): p for topic in response.responses for p in topic.partitions}


async def test_a_session_tells_only_what_is_new() -> None:
    async with peer() as client:
        await fill(client, 1, 1)
        session = Session(client)
        first = await session.fetch({("t", 0): 0, ("t", 1): 0})
        assert [len(values(partition)) for partition in first.values()] == [1, 1]
        assert session.session_id > 0
        assert await session.fetch({("t", 0): 1, ("t", 1): 1}) == {}
        await client.produce(make_batch(b"new"), index=1)
        news = await session.fetch({})
        assert {key: values(partition) for key, partition in news.items()} == {("t", 1): [b"new"]}
        again = await session.fetch({})
        assert list(again) == [("t", 1)]  # it was not told that the position moved, so the data comes again
        assert await session.fetch({("t", 1): 2}) == {}


async def test_a_session_waits_for_all_its_partitions() -> None:
    async with peer() as client:
        await fill(client, 0, 0)
        session = Session(client)
        await session.fetch({("t", 0): 0, ("t", 1): 0})
        waiting = asyncio.ensure_future(session.fetch({}, max_wait_ms=LONG_MS))
        await settled()
        assert not waiting.done()
        await Peer(client.broker, client.machine).produce(make_batch(b"new"), index=1)
        assert list(await asyncio.wait_for(waiting, 60)) == [("t", 1)]


async def test_a_forgotten_partition_is_silent() -> None:
    async with peer() as client:
        await fill(client, 0, 0)
        session = Session(client)
        await session.fetch({("t", 0): 0, ("t", 1): 0})
        await session.fetch({}, forget={"t": [0]})
        for index in range(2):
            await client.produce(make_batch(b"new"), index=index)
        assert list(await session.fetch({})) == [("t", 1)]


async def test_a_partition_with_an_error_is_told_every_time_and_told_when_it_is_well() -> None:
    async with peer() as client:
        await fill(client, 1)
        session = Session(client)
        assert (await session.fetch({("t", 0): 5}))["t", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await session.fetch({}))["t", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        well = await session.fetch({("t", 0): 1})
        assert (well["t", 0].error_code, well["t", 0].high_watermark) == (0, 1)


async def test_partitions_take_turns_within_a_session() -> None:
    async with peer() as client:
        await fill(client, 1, 1, 1)
        session = Session(client)
        await session.fetch({("t", index): 0 for index in range(3)}, max_bytes=1)
        order = [next(key for key, p in (await session.fetch({}, max_bytes=1)).items() if p.records) for _ in range(3)]
        assert order == [("t", 1), ("t", 2), ("t", 0)]


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [
        ("known", 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ("unknown", 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ("none", 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
async def test_who_is_out_of_step_is_refused_whole(session_id: str, epoch: int, code: int) -> None:
    async with peer() as client:
        await fill(client, 1)
        session = Session(client)
        await session.fetch({("t", 0): 0})
        asked = {"known": session.session_id, "unknown": session.session_id ^ 1, "none": 0}[session_id]
        response = await client.ask(fetch_request({("t", 0): 0}, session_id=asked, session_epoch=epoch), 12)
        assert (response.error_code, response.session_id, response.responses) == (code, 0, [])


async def test_a_session_by_name_cannot_go_on_by_id() -> None:
    async with peer() as client:
        topic_id = await client.create()
        session = Session(client)
        await session.fetch({("t", 0): 0})
        topics = [FetchRequestTopic(topic_id=topic_id, partitions=[FetchRequestPartition(partition=0)])]
        request = FetchRequest(session_id=session.session_id, session_epoch=1, topics=topics)
        response = await client.ask(request, 13)
        assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


async def test_a_closed_session_is_gone() -> None:
    async with peer() as client:
        await fill(client, 1)
        session = Session(client)
        await session.fetch({("t", 0): 0})
        closing = fetch_request({}, session_id=session.session_id, session_epoch=-1)
        response = await client.ask(closing, 12)
        assert (response.error_code, response.session_id) == (0, 0)
        assert len(client.broker.fetch_sessions) == 0


async def test_a_topic_recreated_under_a_session_is_told_with_its_new_start() -> None:
    async with peer() as client:
        await fill(client, 3)
        session = Session(client)
        await session.fetch({("t", 0): 3})
        await client.ask(DeleteTopicsRequest(topic_names=["t"]), 5)
        assert (await session.fetch({}))["t", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await fill(client, 1)
        assert (await session.fetch({}))["t", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert values((await session.fetch({("t", 0): 0}))["t", 0]) == [b"old"]


async def test_sessions_have_their_slots() -> None:
    async with peer(max_incremental_fetch_session_cache_slots="1") as client:
        await fill(client, 1)
        first, second = Session(client), Session(client)
        await first.fetch({("t", 0): 0})
        await second.fetch({("t", 0): 0})
        assert (first.session_id > 0, second.session_id) == (True, 0)
        client.machine.clock.time_ms = NOW_MS + 200_000
        third = Session(client)
        await third.fetch({("t", 0): 0})
        assert third.session_id > 0
