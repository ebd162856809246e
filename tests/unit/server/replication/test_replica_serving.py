"""What leaders say to followers and to those who are none, and what followers say to consumers."""

import pytest
from tests.unit.server.replication.cluster import Cluster, running, stored, unsure_of_its_session, until

from tailrace.machines.controller.record import BrokerAdmitted, BrokerRecord, ConfigKind, ConfigRecord, TopicRecord
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
)
from tailrace.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)
from tailrace.records.batch import read_header

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def answer_to(
    cluster: Cluster,
    replica_id: int,
    *,
    replica_epoch: int | None = None,
    leader_epoch: int = 0,
    offset: int = 0,
    last: int = -1,
) -> FetchResponse:
    """What broker 1 answers to a replica, of at most 1,000 bytes."""
    if replica_epoch is None:
        there = cluster.metadata.image.brokers.get(replica_id)
        replica_epoch = there.epoch if there else 0
    connection = await cluster[1].ask()
    try:
        wanted = FetchRequestPartition(
            partition=0,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=last,
            partition_max_bytes=1000,
        )
        topic_id = cluster.metadata.image.topics["t"].topic_id
        request = FetchRequest(
            replica_state=FetchRequestReplicaState(replica_id=replica_id, replica_epoch=replica_epoch),
            topics=[FetchRequestTopic(topic_id=topic_id, partitions=[wanted])],
        )
        return await connection.request(request, FetchResponse)
    finally:
        await connection.close()


async def fetch_as(cluster: Cluster, replica_id: int, **asked: int) -> tuple[ErrorCode, ErrorCode | None]:
    """The error of the whole answer and that of its only partition."""
    response = await answer_to(cluster, replica_id, **asked)
    partitions = response.responses[0].partitions if response.responses else []
    return ErrorCode(response.error_code), ErrorCode(partitions[0].error_code) if partitions else None


async def test_a_follower_is_not_sent_a_part_of_a_batch() -> None:
    """It would only throw it away, and ask for the whole of it with its next fetch."""
    async with running(2) as pair:
        await pair.create([(1, 2)])
        await pair[2].stop()
        for _ in range(2):
            assert (await pair.produce(1, b"x" * 600, acks=1)).error_code == 0
        (topic,) = (await answer_to(pair, 2)).responses
        records = topic.partitions[0].records
        assert isinstance(records, memoryview)
        assert len(records) == read_header(records).size_bytes


async def test_whose_fetches_count_as_a_followers() -> None:
    async with running(2, replica_selector_class=RACK_AWARE) as pair:
        await pair.create([(1,)])
        assert await fetch_as(pair, 2) == (ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH)
        assert await fetch_as(pair, 99) == (ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH)
        await pair.create([(1, 2)], topic="u")
        assert pair[1].partition().leadership is None


async def test_kip_320_followers_of_another_epoch_are_fenced() -> None:
    async with running(2, replica_selector_class=RACK_AWARE) as pair:
        await pair.create([(1, 2)])
        await pair.elect(1, (1, 2))
        assert await fetch_as(pair, 2, leader_epoch=0) == (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH)
        assert await fetch_as(pair, 2, leader_epoch=2) == (ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH)
        assert await fetch_as(pair, 2, leader_epoch=-1) == (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert await fetch_as(pair, 2, leader_epoch=1) == (ErrorCode.NONE, ErrorCode.NONE)
        await pair.elect(2, (1, 2))
        assert await fetch_as(pair, 2, leader_epoch=2) == (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_kip_380_an_earlier_life_of_a_broker_is_refused() -> None:
    async with running(2, replica_selector_class=RACK_AWARE) as pair:
        await pair.create([(1, 2)])
        await pair[2].stop()
        assert pair[1].server is not None
        pair[1].server.broker.image.replay(BrokerRecord(2, 7))
        assert await fetch_as(pair, 2, replica_epoch=6) == (ErrorCode.STALE_BROKER_EPOCH, None)
        # One that this broker has not heard of yet gets its records, but is in no ISR before it has.
        assert await fetch_as(pair, 2, replica_epoch=8) == (ErrorCode.NONE, ErrorCode.NONE)


async def list_offset(
    cluster: Cluster, broker_id: int, *, timestamp: int = -1, version_max: int = 11
) -> ErrorCode | int:
    connection = await cluster[broker_id].ask()
    try:
        asked = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(name="t", partitions=[asked])])
        response = await connection.request(request, ListOffsetsResponse, version_max=version_max)
        (answer,) = response.topics[0].partitions
        return ErrorCode(answer.error_code) if answer.error_code else answer.offset
    finally:
        await connection.close()


async def test_kip_207_a_new_leader_does_not_say_that_less_is_committed_than_was() -> None:
    async with running(2) as cluster:
        await cluster.create([(1, 2)])
        await cluster.produce(1, b"a")
        await cluster[2].stop()
        await cluster.produce(1, b"b", acks=1)
        assert await list_offset(cluster, 1) == 1
        await cluster.elect(1, (1, 2))
        assert await list_offset(cluster, 1) is ErrorCode.OFFSET_NOT_AVAILABLE
        assert await list_offset(cluster, 1, version_max=4) is ErrorCode.LEADER_NOT_AVAILABLE
        assert await list_offset(cluster, 1, timestamp=-2) == 0
        await cluster[2].start()
        await until(lambda: cluster[1].partition().high_watermark == 2)
        assert await list_offset(cluster, 1) == 2


async def test_only_a_leader_answers_for_offsets_and_epochs() -> None:
    async with running(2, replica_selector_class=RACK_AWARE) as pair:
        await pair.create([(1, 2)])
        await pair.produce(1, b"a")
        assert await list_offset(pair, 1) == 1
        assert await list_offset(pair, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        for broker_id, code in ((1, ErrorCode.NONE), (2, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            connection = await pair[broker_id].ask()
            epochs = await connection.request(
                OffsetForLeaderEpochRequest(
                    replica_id=-1,
                    topics=[
                        OffsetForLeaderEpochRequestTopic(
                            topic="t", partitions=[OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=0)]
                        )
                    ],
                ),
                OffsetForLeaderEpochResponse,
            )
            await connection.close()
            assert epochs.topics[0].partitions[0].error_code == code


async def test_kip_392_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    async with running(2, replica_selector_class=RACK_AWARE) as pair:
        await pair.create([(1, 2)])
        await pair.produce(1, b"a")
        answer = await pair.fetch(1, rack="rack-2")
        assert (answer.preferred_read_replica, bytes(answer.records or b"")) == (2, b"")  # type: ignore[arg-type]
        for rack in ("rack-1", "", "elsewhere"):
            assert (await pair.fetch(1, rack=rack)).preferred_read_replica == -1
        await until(lambda: pair[2].partition().high_watermark == 1)
        assert await pair.values(2) == [b"a"]


async def test_a_follower_shows_nothing_that_is_not_committed() -> None:
    async with running(3, min_insync_replicas="3") as cluster:
        await cluster.create()
        await cluster.produce(1, b"a")
        await until(lambda: cluster[2].partition().high_watermark == 1)
        await cluster[3].stop()
        await cluster.produce(1, b"b", acks=1)
        await until(lambda: cluster[2].partition().log.log_end_offset == 2)
        assert await cluster.values(2) == await cluster.values(1) == [b"a"]


async def test_a_new_replica_begins_where_the_leaders_log_does() -> None:
    """What the leader has deleted cannot be had, and the follower's empty log ends before it."""
    async with running(2) as cluster:
        topic_id = await cluster.create([(1,)])
        for number in range(5):
            await cluster.produce(1, b"%d" % number)
        cluster[1].partition().delete_records(3)
        await cluster.commit(TopicRecord("t", topic_id, ((1, 2),)))
        await until(lambda: set(cluster.state().isr) == {1, 2})
        log = cluster[2].partition().log
        assert (log.log_start_offset, log.log_end_offset) == (3, 5)
        # It follows when more is deleted.
        cluster[1].partition().delete_records(4)
        await until(lambda: log.log_start_offset == 4)


async def test_a_replica_that_moved_away_is_gone_with_its_files() -> None:
    async with running(2, replica_lag_time_max_ms="800") as cluster:
        topic_id = await cluster.create([(1, 2)])
        await cluster.produce(1, b"a")
        partition = cluster[2].partition()
        await cluster.commit(TopicRecord("t", topic_id, ((1,),)))
        assert cluster[2].server is not None
        await cluster[2].server.broker.replicas.settled()
        assert partition.is_retired
        assert (await cluster.fetch(2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await until(lambda: cluster.state().isr == (1,))
        assert (await cluster.produce(1, b"b")).error_code == 0


async def test_an_unclean_leader_takes_committed_records_away_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with running(2, replica_lag_time_max_ms="800") as cluster:
        await cluster.create([(1, 2)])
        await cluster.produce(1, b"a")
        await cluster[2].stop()
        assert (await cluster.produce(1, b"lost")).error_code == 0
        assert cluster.state().isr == (1,)
        await cluster[1].stop()
        await cluster[2].start()
        await cluster.elect(2, (2,))
        await cluster.produce(2, b"b")
        await cluster[1].start()
        await until(lambda: set(cluster.state().isr) == {1, 2})
        assert stored(cluster[1]) == stored(cluster[2])
        assert any("after an unclean election; committed records" in message for message in caplog.messages)


async def test_a_leader_whose_session_is_over_acknowledges_nothing() -> None:
    async with running(2) as cluster:
        await cluster.create([(1, 2)])
        await cluster.produce(1, b"a")
        with unsure_of_its_session(cluster[1]):
            answer = await cluster.produce(1, b"b")
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.produce(1, b"b")).error_code == 0


async def test_many_partitions_share_a_connection() -> None:
    async with running(2) as cluster:
        await cluster.create([(1, 2)] * 40)
        for index in range(0, 40, 7):
            assert (await cluster.produce(1, b"%d" % index, index=index)).error_code == 0
        for index in range(40):
            assert stored(cluster[1], index=index) == stored(cluster[2], index=index)
        assert cluster[2].server is not None
        assert len(cluster[2].server.broker.fetchers._fetchers) == 2


async def test_flushes_that_a_topic_demands_come_before_the_acknowledgement() -> None:
    async with running(2) as cluster:
        await cluster.create([(1, 2)], flush_messages="1")
        assert (await cluster.produce(1, b"a")).error_code == 0
        for broker_id in (1, 2):
            assert cluster[broker_id].partition().log.recovery_point == 1


async def test_a_consumer_ahead_of_a_follower_is_told_to_wait_and_not_that_it_is_out_of_range() -> None:
    async with running(2) as pair:
        await pair.create([(1, 2)], isr=(1,))
        await pair.produce(1, b"a")
        answer = await pair.fetch(2, 1_000)
        assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await pair.fetch(1, 1_000)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_who_may_lead_no_longer_tells_no_consumer_that_it_is_out_of_range() -> None:
    """It had been paused, another led meanwhile, and it did not know that yet (seed 100523)."""
    async with running(2) as pair:
        await pair.create([(1, 2)])
        await pair.produce(1, b"a")
        with unsure_of_its_session(pair[1]):
            assert (await pair.fetch(1, 1_000)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await pair.fetch(1, 0)).error_code == 0
        assert (await pair.fetch(1, 1_000)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_leader_that_is_not_admitted_serves_nobody() -> None:
    """It came back within its session's time without the tail that it had lost.

    Consumers still took it for the leader, it answered them like a follower that it was, and those that had read
    what it had lost were told that they were out of range and began at the start again.
    """
    async with running(2) as pair:
        await pair.create([(1, 2)])
        await pair.produce(1, b"a")
        await pair.commit(BrokerAdmitted(1, -5))
        await until(lambda: not pair[1].partition().is_leader)
        for offset in (0, 1_000):
            assert (await pair.fetch(1, offset)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_new_replica_is_held_back_until_it_is_in_sync(side: str) -> None:
    """A batch comes with each fetch and costs a second. Nobody waits for all of them: the rate is lifted meanwhile."""
    async with running(2, replica_fetch_max_bytes="1000") as cluster:
        topic_id = await cluster.create([(1,)], topic="t", isr=None, **{f"{side}_replication_throttled_replicas": "*"})
        for _ in range(6):
            await cluster.produce(1, b"v" * 100_000)
        rate = {f"{side}.replication.throttled.rate": "100000"}
        await cluster.commit(*(ConfigRecord(ConfigKind.BROKER, str(each), rate) for each in (1, 2)))
        await cluster.commit(TopicRecord("t", topic_id, ((1, 2),)))
        brokers = [member.server.broker for member in cluster.members.values() if member.server is not None]
        throttle = brokers[0].leader_throttle if side == "leader" else brokers[1].fetchers._throttle
        await until(lambda: throttle.is_exceeded and cluster[2].partition().log.log_end_offset > 0)
        assert cluster[2].partition().log.log_end_offset < 6
        assert cluster.state().isr == (1,)
        await cluster.commit(*(ConfigRecord(ConfigKind.BROKER, str(each), {}) for each in (1, 2)))
        await until(lambda: set(cluster.state().isr) == {1, 2})
        assert (await cluster.produce(1, b"in sync")).error_code == 0
