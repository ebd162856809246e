"""Members of groups, with every protocol and through both faces: sharing, going on, and letting go."""

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.client.conftest import find_membership
from tests.unit.client.face import Face

import tailrace
from tailrace.client.backoff import Deadline
from tailrace.client.error import CommitFailed, OffsetMissing
from tailrace.client.metadata import EMPTY_VIEW, Topic
from tailrace.protocol.api_key import ApiKey

Shared = Callable[..., str]
Settings = dict[str, Any]

PATIENCE_MS = 60_000


@pytest.fixture
def group_id() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


Make = Callable[..., Any]


@pytest.fixture
def member(group_broker: str, group_id: str, membership: Settings) -> Iterator[Make]:
    """Makes members of the test's group, and closes them at the end."""
    yield from members(Face("thread"), group_broker, group_id, membership)


EITHER = ["eager-thread", "cooperative-asyncio", "consumer-thread", "consumer-asyncio"]


@pytest.fixture(params=EITHER)
def either(
    request: pytest.FixtureRequest, group_broker: str, group_id: str, group_apis: frozenset[int]
) -> Iterator[Make]:
    """The same with either face; not every face with every protocol, since they know nothing of each other."""
    name, _, face = request.param.partition("-")
    yield from members(Face(face), group_broker, group_id, find_membership(name, group_apis))


def members(face: Face, group_broker: str, group_id: str, membership: Settings) -> Iterator[Make]:
    with ExitStack() as stack:

        def make(**settings: Any) -> Any:
            options = {"auto_offset_reset": "earliest", **membership, **settings}
            return stack.enter_context(face.consumer(group_broker, group_id=group_id, **options))

        yield make


def read(consumer: Any, count: int, into: list[Any] | None = None) -> list[Any]:
    """At least so many records."""
    found: list[Any] = [] if into is None else into
    deadline = Deadline(PATIENCE_MS)
    while len(found) < count:
        assert not deadline.is_over, f"only {len(found)} of {count} records"
        found += consumer.poll(0.2)
    return found


def settle(*consumers: Any, sizes: list[int]) -> list[Any]:
    """Poll members in turn until they share as they should; what they read meanwhile."""
    deadline = Deadline(PATIENCE_MS)
    found: list[Any] = []
    while sorted(len(consumer.assignment()) for consumer in consumers) != sorted(sizes):
        assert not deadline.is_over, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            found += consumer.poll(0.02)
    return found


def numbers(records: list[Any]) -> list[int]:
    return sorted(int(record.value) for record in records)


def test_a_group_goes_on_where_it_stopped(shared: Shared, either: Make) -> None:
    topic = shared(4, 40)
    with either().subscribe(topic) as first:
        assert numbers(read(first, 40)) == list(range(40))
    second = either().subscribe(topic)
    settle(second, sizes=[4])
    assert second.poll(0.05) == []
    found = {target: offset.offset for target, offset in second.committed().items()}
    assert found == {(topic, partition): 10 for partition in range(4)}
    assert second.position(topic, 2) == 10


def test_members_share_and_take_over(shared: Shared, either: Make) -> None:
    topic = shared(4, 400)
    first, second = either(max_poll_records=7).subscribe(topic), either(max_poll_records=7).subscribe(topic)
    seen = settle(first, second, sizes=[2, 2])
    assert not set(first.assignment()) & set(second.assignment())
    first.close()
    read(second, 400, seen)
    assert numbers(seen) == list(range(400))  # a clean leave hands over to the record
    settle(second, sizes=[4])


def test_callbacks_tell_what_comes_and_goes(shared: Shared, either: Make, request: pytest.FixtureRequest) -> None:
    topic = shared(4, 0)
    events: list[tuple[str, list[Any]]] = []

    def note(kind: str) -> Callable[[list[Any]], None]:
        return lambda partitions: events.append((kind, partitions))

    first = either().subscribe(topic, on_assigned=note("assigned"), on_revoked=note("revoked"), on_lost=note("lost"))
    settle(first, sizes=[4])
    assert events == [("assigned", [(topic, number) for number in range(4)])]
    first.pause(*first.assignment())
    second = either().subscribe(topic)
    settle(first, second, sizes=[2, 2])
    kept = first.assignment()
    if "eager" in request.node.name:
        assert events[1] == ("revoked", [(topic, number) for number in range(4)])
        assert events[2] == ("assigned", kept)
        assert first.paused() == []
    else:
        assert events[1] == ("revoked", [(topic, number) for number in range(4) if (topic, number) not in kept])
        assert first.paused() == kept
    count = len(events)
    first.close()
    assert events[count:] == [("revoked", kept)]


def test_commits_by_record_by_offset_and_in_order(shared: Shared, either: Make) -> None:
    topic = shared(1, 20)
    consumer = either(enable_auto_commit=False).subscribe(topic)
    records = read(consumer, 20)
    assert consumer.committed() == {(topic, 0): None}
    consumer.commit(records[4])
    assert consumer.committed()[topic, 0].offset == 5
    consumer.commit({(topic, 0): tailrace.OffsetAndMetadata(7, "seven")})
    assert consumer.committed([(topic, 0)])[topic, 0][:2] == (7, "seven")
    futures = [consumer.commit_async(record) for record in records[8:15]]
    for future in futures:
        future.result(60)
    assert consumer.committed()[topic, 0].offset == 15
    consumer.commit()
    assert consumer.committed()[topic, 0] == (20, "", 0)  # with the epoch of the last record


def test_batches_are_committed_like_records(shared: Shared, either: Make) -> None:
    pytest.importorskip("pyarrow")
    topic = shared(1, 20)
    consumer = either(enable_auto_commit=False).subscribe(topic)
    batches = consumer.batches(timeout_s=60)
    batch = next(batches)
    consumer.commit(batch)
    assert consumer.committed()[topic, 0].offset == batch.num_rows
    consumer.commit(batch.slice(0, 3))
    assert consumer.committed()[topic, 0].offset == 3
    with pytest.raises(ValueError, match="without the column topic"):
        consumer.commit(batch.select(["value"]))
    with pytest.raises(TypeError, match="int cannot be committed"):
        consumer.commit(5)


def test_automatic_commits_stop_before_what_is_worked_on(
    shared: Shared, either: Make, group_broker: str, group_id: str
) -> None:
    topic = shared(1, 50)
    consumer = either(auto_commit_interval_ms=10).subscribe(topic)
    taken, place = iter(consumer), tailrace.TopicPartition(topic, 0)
    deadline = Deadline(PATIENCE_MS)
    with tailrace.Consumer(group_broker, group_id=group_id) as watcher:
        for expected in range(50):
            record = next(taken)
            assert record.offset == expected
            found = watcher.committed([place])[place]
            assert found is None or found.offset <= record.offset
        while (found := watcher.committed([place])[place]) is None or found.offset < 50:
            assert not deadline.is_over
            assert consumer.poll(0.02) == []


def test_what_fails_is_not_committed(shared: Shared, either: Make) -> None:
    topic = shared(1, 5)

    def work() -> None:
        with either(auto_commit_interval_ms=60_000).subscribe(topic) as consumer:
            for _ in consumer:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    again = either().subscribe(topic)
    assert numbers(read(again, 5)) == list(range(5))


def test_a_member_that_reads_too_slowly_loses_its_partitions(shared: Shared, either: Make) -> None:
    topic = shared(2, 20)
    lost: list[Any] = []
    slow = either(max_poll_interval_ms=2_000, enable_auto_commit=False).subscribe(topic, on_lost=lost.extend)
    records = read(slow, 20)
    before = len(lost)  # on a busy machine there may be seconds between two reads
    quick = either().subscribe(topic)
    assert numbers(read(quick, 20)) == list(range(20))  # it was committed nowhere
    with pytest.raises(CommitFailed):
        slow.commit(records[-1])
    assert lost[before:] == []
    assert slow.poll(0) == []
    settle(slow, quick, sizes=[1, 1])
    assert lost[before : before + 2] == [(topic, 0), (topic, 1)]


SLOW_CONSUMER = pytest.param("consumer", marks=pytest.mark.slow)  # coordinators look again after ten seconds at best


@pytest.mark.parametrize("membership", ["eager", "cooperative", SLOW_CONSUMER], indirect=True)
def test_a_pattern_finds_topics_that_appear(shared: Shared, member: Make, topic: str) -> None:
    name = shared(1, 3, f"{topic}-a")
    consumer = member(metadata_max_age_ms=100).subscribe(re.compile(f"{topic}-[ab]"))
    assert {record.topic for record in read(consumer, 3)} == {name}
    shared(1, 1, f"{topic}-abc")
    other = shared(1, 2, f"{topic}-b")
    assert {record.topic for record in read(consumer, 2)} == {other}


def test_a_pattern_matches_whole_names(shared: Shared, member: Make, topic: str) -> None:
    shared(1, 1, f"{topic}-abc")
    name = shared(1, 3, f"{topic}-a")
    consumer = member().subscribe(re.compile(f"{topic}-[ab]"))
    assert {record.topic for record in read(consumer, 3)} == {name}
    assert consumer.assignment() == [(name, 0)]


def test_a_subscription_can_change(shared: Shared, member: Make, topic: str) -> None:
    one, two = shared(1, 3, f"{topic}-1"), shared(1, 3, f"{topic}-2")
    consumer = member().subscribe(one)
    assert {record.topic for record in read(consumer, 3)} == {one}
    consumer.subscribe([two])
    assert {record.topic for record in read(consumer, 3)} == {two}
    assert consumer.assignment() == [(two, 0)]
    consumer.unsubscribe()
    assert consumer.assignment() == []
    consumer.assign([(one, 0)])  # by hand, from where the group stopped
    assert consumer.position(one, 0) == 3


def test_a_static_member_comes_back_to_what_it_had(shared: Shared, member: Make) -> None:
    topic = shared(4, 0)
    events: list[Any] = []
    told = {"on_revoked": events.append, "on_assigned": events.append}
    stays = member(group_instance_id="stays").subscribe(topic, **told)
    goes = member(group_instance_id="goes").subscribe(topic)
    settle(stays, goes, sizes=[2, 2])
    had, count = goes.assignment(), len(events)
    goes.close()
    back = member(group_instance_id="goes").subscribe(topic)
    settle(stays, back, sizes=[2, 2])
    assert back.assignment() == had
    assert len(events) == count


def test_a_static_leader_assigns_the_partitions_that_were_added_while_it_was_away(
    group_broker: str, shared: Shared, member: Make
) -> None:
    """It came back to its assignment without a rebalance, counted the new partitions, and took them for assigned. No
    member read them until the next rebalance."""
    topic = shared(2, 0)
    leads = member(group_instance_id="leads").subscribe(topic)
    settle(leads, sizes=[2])
    stays = member(group_instance_id="stays").subscribe(topic)
    settle(leads, stays, sizes=[1, 1])
    leads.close()
    with tailrace.Admin(group_broker) as admin:
        assert admin.create_partitions({topic: 4}) == {topic: None}
    back = member(group_instance_id="leads").subscribe(topic)
    settle(stays, back, sizes=[2, 2])


def test_without_a_commit_or_a_reset_there_is_an_error(shared: Shared, member: Make) -> None:
    topic = shared(1, 3)
    consumer = member(auto_offset_reset="none").subscribe(topic)
    with pytest.raises(OffsetMissing, match=f"{topic}-0 has no committed offset; seek to an offset"):
        read(consumer, 1)
    consumer.seek(topic, 0, 1)
    assert numbers(read(consumer, 2)) == [1, 2]


def test_a_group_without_a_commit_may_begin_some_time_ago(group_broker: str, shared: Shared, member: Make) -> None:
    topic = shared(1)
    now_ms = round(time.time() * 1000)
    with tailrace.Producer(group_broker) as producer:
        for number, age_h in enumerate((50, 3, 2)):
            producer.send(topic, b"%d" % number, timestamp_ms=now_ms - age_h * 3_600_000)
    assert numbers(read(member(auto_offset_reset="by_duration:P1D").subscribe(topic), 2)) == [1, 2]


def test_a_topic_that_is_made_again_is_read_from_its_beginning_and_committed_anew(
    group_broker: str, shared: Shared, member: Make
) -> None:
    """What was committed for the old topic counted for the new one."""
    topic = shared(1, 4)
    consumer = member().subscribe(topic)
    assert numbers(read(consumer, 4)) == [0, 1, 2, 3]
    consumer.commit()
    deadline = Deadline(PATIENCE_MS)
    with tailrace.Admin(group_broker) as admin:
        assert admin.delete_topics([topic]) == {topic: None}
        while isinstance(admin.create_topics([tailrace.NewTopic(topic, 1, 1)])[topic], tailrace.ApiError):
            assert not deadline.is_over
    with tailrace.Producer(group_broker) as producer:
        for number in range(10, 14):
            producer.send(topic, b"%d" % number)
    assert numbers(read(consumer, 4)) == [10, 11, 12, 13]
    consumer.unsubscribe()  # with an automatic commit, though the same offset was committed before
    assert consumer.committed([(topic, 0)])[topic, 0].offset == 4


def test_a_commit_for_a_topic_that_is_gone_does_not_count_in_the_one_that_has_its_name(
    group_broker: str, group_id: str, shared: Shared
) -> None:
    """The client has not heard yet that the topic is another one."""
    topic = shared(1, 3)
    with tailrace.Consumer(group_broker, group_id=group_id, auto_offset_reset="earliest").assign(
        [(topic, 0)]
    ) as consumer:
        assert numbers(read(consumer, 3)) == [0, 1, 2]
        consumer.commit({(topic, 0): 2})
        cluster = consumer._core.cluster
        view = cluster.view
        cluster.view = replace(view, topics={topic: replace(view.topics[topic], topic_id=uuid.uuid4())})
        with pytest.raises(tailrace.ApiError, match="UNKNOWN_TOPIC_ID"):
            consumer.commit({(topic, 0): 3})
        cluster.view = view
        committed = consumer.committed([(topic, 0)])[tailrace.TopicPartition(topic, 0)]
        assert committed is not None
        assert committed.offset == 2


@pytest.mark.parametrize(("topic_id", "offset"), [(1, 5), (2, None), (0, 5)])
def test_a_position_in_a_topic_that_is_gone_is_not_committed(topic_id: int, offset: int | None) -> None:
    with tailrace.Consumer("127.0.0.1:1", group_id="g").assign([("t", 0, 5)]) as consumer:
        core = consumer._core
        core.fetcher.assignment.find(("t", 0)).topic_id = uuid.UUID(int=1)
        core.cluster.view = replace(EMPTY_VIEW, topics={"t": Topic("t", uuid.UUID(int=topic_id), False, ())})
        found = core.joined_group().positions()
        assert {target: at.offset for target, at in found.items()} == ({} if offset is None else {("t", 0): offset})


def test_what_a_callback_raises_reaches_the_reader_once(shared: Shared, member: Make) -> None:
    topic = shared(1, 3)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    consumer = member().subscribe(topic, on_assigned=fail)
    with pytest.raises(ZeroDivisionError):
        read(consumer, 1)
    assert numbers(read(consumer, 3)) == [0, 1, 2]


def test_a_callback_may_seek_and_commit(shared: Shared, member: Make) -> None:
    topic = shared(1, 10)
    consumer = member()

    def skip(partitions: list[tailrace.TopicPartition]) -> None:
        for target in partitions:
            consumer.seek(*target, 6)

    consumer.subscribe(topic, on_assigned=skip, on_revoked=lambda _: consumer.commit({(topic, 0): 9}))
    assert numbers(read(consumer, 4)) == [6, 7, 8, 9]
    consumer.close()
    again = member().subscribe(topic)
    assert numbers(read(again, 1)) == [9]


def test_callbacks_may_be_coroutines(shared: Shared, group_broker: str, group_id: str, membership: Settings) -> None:
    topic = shared(1, 10)

    async def work() -> list[int]:
        options = {"auto_offset_reset": "earliest", **membership}
        consumer = tailrace.aio.Consumer(group_broker, group_id=group_id, **options)

        async def skip(partitions: list[tailrace.TopicPartition]) -> None:
            await consumer.commit(dict.fromkeys(partitions, 3))
            for target in partitions:
                consumer.seek(*target, 6)

        async with consumer.subscribe(topic, on_assigned=skip):
            found = [await anext(consumer) for _ in range(4)]
            assert await consumer.committed([(topic, 0)]) == {(topic, 0): (3, "", -1)}
        return numbers(found)

    assert asyncio.run(work()) == [6, 7, 8, 9]


def test_the_newer_protocol_is_used_where_it_is(
    shared: Shared, group_broker: str, group_id: str, group_apis: frozenset[int]
) -> None:
    if ApiKey.JOIN_GROUP not in group_apis:
        pytest.skip("the broker does not advertise JOIN_GROUP yet")
    topic = shared(1, 1)
    with tailrace.Consumer(group_broker, group_id=group_id, auto_offset_reset="earliest").subscribe(topic) as consumer:
        read(consumer, 1)
        with tailrace.Admin(group_broker) as admin:
            (listed,) = [found for found in admin.list_groups() if found.group_id == group_id]
    assert listed.group_type == ("consumer" if ApiKey.CONSUMER_GROUP_HEARTBEAT in group_apis else "classic")


@pytest.mark.parametrize("strategy", ["roundrobin", "sticky", "range,cooperative-sticky"])
def test_every_strategy_shares(
    strategy: str, shared: Shared, group_broker: str, group_id: str, group_apis: frozenset[int]
) -> None:
    settings = {**find_membership("eager", group_apis), "partition_assignment_strategy": strategy}
    topic = shared(4, 40)
    for make in members(Face("thread"), group_broker, group_id, settings):
        first, second = make().subscribe(topic), make().subscribe(topic)
        seen = settle(first, second, sizes=[2, 2])
        first.close()
        read(second, 40, seen)
        assert numbers(seen) == list(range(40))


def test_members_of_both_protocols_share_a_group(
    shared: Shared, group_broker: str, group_id: str, group_apis: frozenset[int]
) -> None:
    topic = shared(4, 200)
    old, new = find_membership("cooperative", group_apis), find_membership("consumer", group_apis)
    for make_old in members(Face("thread"), group_broker, group_id, old):
        first = make_old(max_poll_records=5).subscribe(topic)
        seen = settle(first, sizes=[4])
        for make_new in members(Face("thread"), group_broker, group_id, new):
            second = make_new(max_poll_records=5).subscribe(topic)
            seen += settle(first, second, sizes=[2, 2])
            first.close()
            read(second, 200, seen)
            settle(second, sizes=[4])
    assert numbers(seen) == list(range(200))
