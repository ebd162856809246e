"""How records become batches, when these leave, and who waits for room."""

import threading
from typing import Any

import pytest

from tailrace.client.error import ClientClosed
from tailrace.client.metadata import NO_LEADER
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.delivery import Outcome, ThreadReceipt
from tailrace.client.produce.outbox import Outbox
from tailrace.client.produce.queue import Drained, OutboxOptions
from tailrace.client.produce.sequence import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.records.compression import Compression
from tailrace.records.record import read_records

T0 = TopicPartition("t", 0)
ME = Identity(7, 0)


def new_outbox(**options: Any) -> Outbox:
    chosen = {
        "batch_size_bytes": 200,
        "linger_s": 1.0,
        "buffer_bytes_max": 10_000,
        "request_bytes_max": 1000,
        "delivery_timeout_s": 100.0,
        "is_idempotent": True,
    } | options
    return Outbox(OutboxOptions(**chosen), ThreadReceipt)


def add(outbox: Outbox, value: bytes = b"v", *, partition: int = 0, now_s: float = 0.0, size: int = 20) -> Any:
    return outbox.append("t", partition, (1000, None, value, ()), size, now_s)


def drain(
    outbox: Outbox, now_s: float = 0.0, leader: int = 1, capacity: bool = True, identity: Identity = ME
) -> Drained:
    return outbox.drain(now_s, lambda _: leader, lambda _: capacity, identity)


def values(batch: Batch) -> list[bytes | None]:
    return [record.value for record in read_records(batch.data(Compression.NONE, None))]


def introduce(outbox: Outbox) -> None:
    """Have a first batch acknowledged: before that, there is one under way at most."""
    add(outbox, b"first")
    (batch,) = drain(outbox).requests[1]
    assert batch.stamp.base_sequence == 0
    outbox.acknowledge(batch)


def test_a_batch_waits_for_its_time() -> None:
    outbox = new_outbox()
    assert add(outbox, b"a", now_s=5.0)[1]  # opened a batch
    assert not add(outbox, b"b", now_s=5.5)[1]  # joined it
    early = drain(outbox, 5.9)
    assert (early.requests, early.next_at_s) == ({}, 6.0)
    (batch,) = drain(outbox, 6.0).requests[1]
    assert values(batch) == [b"a", b"b"]


def test_a_full_batch_does_not_wait() -> None:
    outbox = new_outbox()
    add(outbox, b"a", size=100)
    assert add(outbox, b"b", size=100)[1]  # 61 bytes of header make that too much for one batch
    (batch,) = drain(outbox).requests[1]
    assert values(batch) == [b"a"]


def test_a_flush_does_not_wait() -> None:
    outbox = new_outbox()
    add(outbox)
    mark = outbox.begin_flush()
    (batch,) = drain(outbox).requests[1]
    assert not outbox.is_complete(mark)
    add(outbox)
    outbox.acknowledge(batch)
    assert outbox.is_complete(mark)  # what came after the flush began is not its business


def test_several_batches_of_a_partition_are_under_way_in_order() -> None:
    outbox = new_outbox()
    outbox.begin_flush()
    introduce(outbox)
    for index in range(3):
        add(outbox, b"%d" % index, size=150)
    batches = [drain(outbox).requests[1][0] for _ in range(3)]
    assert [values(batch) for batch in batches] == [[b"0"], [b"1"], [b"2"]]
    assert [batch.stamp.base_sequence for batch in batches] == [1, 2, 3]
    # All come back out of order, and leave one by one in theirs.
    for index in (2, 0, 1):
        outbox.put_back(batches[index], 0.0)
    again = drain(outbox).requests[1]
    assert again == [batches[0]]
    assert drain(outbox).requests == {}
    outbox.acknowledge(batches[0])
    assert drain(outbox).requests[1] == [batches[1]]


def test_nothing_goes_to_a_new_leader_before_the_old_one_has_answered() -> None:
    """A batch was overtaken by so many that nobody knew its number any more, and was written twice.

    Simulated seed 20067 found it.
    """
    outbox = new_outbox(linger_s=0.0)
    introduce(outbox)
    add(outbox, b"a")
    (first,) = drain(outbox, leader=1).requests[1]
    add(outbox, b"b")
    assert not drain(outbox, leader=2).requests
    outbox.put_back(first, 0.0)
    (again,) = drain(outbox, leader=2).requests[2]
    assert values(again) == [b"a"]
    (second,) = drain(outbox, leader=2).requests[2]
    assert values(second) == [b"b"]


def lose_second_while_third_is_written(outbox: Outbox) -> tuple[Batch, Batch]:
    """Have a batch put back, because its connection broke, after the next one was taken."""
    introduce(outbox)
    add(outbox, b"second")
    (second,) = drain(outbox).requests[1]
    add(outbox, b"third")
    (third,) = drain(outbox).requests[1]
    outbox.put_back(second, 0.0)
    return second, third


def test_no_more_batches_leave_than_a_broker_remembers() -> None:
    """A batch was overtaken by the next one, and four more left behind it on the next connection.

    When that broke too, the broker had five later batches in its memory, and refused the first of the six.
    """
    outbox = new_outbox(linger_s=0.0)
    second, third = lose_second_while_third_is_written(outbox)
    outbox.acknowledge(third)
    assert drain(outbox).requests[1] == [second]
    sent = [second, third]
    for index in range(9):
        add(outbox, b"%d" % index)
        sent += drain(outbox).requests.get(1, [])
    assert len(sent) == 5
    outbox.acknowledge(second)
    assert len(drain(outbox).requests[1]) == 1


def test_no_batch_is_written_before_an_earlier_one_that_waits_to_be_sent_again() -> None:
    """A batch was taken before its predecessor failed, and was written after that, to a new connection."""
    outbox = new_outbox(linger_s=0.0)
    second, third = lose_second_while_third_is_written(outbox)
    assert outbox.depart([third], "new connection", {}) == []
    for batch in (second, third):
        assert drain(outbox).requests[1] == [batch]
        assert outbox.depart([batch], "new connection", {}) == [batch]
        outbox.acknowledge(batch)


def test_no_batch_is_written_while_an_earlier_one_is_in_flight_on_another_connection() -> None:
    """The other connection is lost, though the sender has not noticed that the earlier batch failed with it."""
    outbox = new_outbox(linger_s=0.0)
    introduce(outbox)
    add(outbox, b"first")
    (first,) = drain(outbox).requests[1]
    assert outbox.depart([first], "lost connection", {}) == [first]
    add(outbox, b"second")
    (second,) = drain(outbox).requests[1]
    assert outbox.depart([second], "new connection", {}) == []
    assert second.failure_count == 0
    assert drain(outbox).requests == {}
    outbox.put_back(first, 0.0)
    assert drain(outbox).requests[1] == [first]
    assert outbox.depart([first], "new connection", {}) == [first]


def test_a_batch_that_must_wait_does_not_hold_up_other_partitions() -> None:
    outbox = new_outbox(linger_s=0.0)
    _, third = lose_second_while_third_is_written(outbox)
    add(outbox, b"elsewhere", partition=1)
    found = drain(outbox).requests[1]
    (other,) = [batch for batch in found if batch.target.partition == 1]
    assert outbox.depart([third, other], "connection", {}) == [other]


def test_without_numbers_nobody_waits_for_the_old_leader() -> None:
    outbox = new_outbox(linger_s=0.0, is_idempotent=False)
    add(outbox, b"a")
    assert drain(outbox, leader=1).requests
    add(outbox, b"b")
    assert drain(outbox, leader=2).requests


def test_one_request_at_a_time_keeps_the_order_without_numbers() -> None:
    """The next batch was written by a new leader while the first was in flight to the old one, and came before it."""
    outbox = new_outbox(linger_s=0.0, is_idempotent=False, has_one_in_flight=True)
    add(outbox, b"a")
    (first,) = drain(outbox, leader=1).requests[1]
    add(outbox, b"b")
    assert not drain(outbox, leader=2).requests
    outbox.put_back(first, 0.0)
    assert drain(outbox, leader=2).requests[2] == [first]
    outbox.acknowledge(first)
    assert drain(outbox, leader=2).requests[2]


def test_what_is_put_back_waits_for_its_time() -> None:
    outbox = new_outbox(linger_s=0.0)
    add(outbox)
    (batch,) = drain(outbox).requests[1]
    outbox.put_back(batch, 3.0)
    waiting = drain(outbox, 2.9)
    assert (waiting.requests, waiting.next_at_s) == ({}, 3.0)
    assert drain(outbox, 3.0).requests[1] == [batch]


def test_what_is_too_old_is_handed_out_as_such() -> None:
    outbox = new_outbox(delivery_timeout_s=10.0)
    add(outbox)
    drained = drain(outbox, 10.0)
    assert len(drained.expired) == 1
    assert drained.requests == {}
    outbox.give_up(drained.expired[0])
    assert outbox.held_bytes == 0


def test_a_topic_without_a_leader_is_named() -> None:
    outbox = new_outbox(linger_s=0.0)
    add(outbox)
    assert drain(outbox, leader=NO_LEADER).leaderless_topics == {"t"}
    assert drain(outbox, capacity=False).requests == {}
    assert len(drain(outbox).requests[1]) == 1


def test_a_request_is_no_larger_than_allowed_and_every_partition_has_its_turn() -> None:
    outbox = new_outbox(linger_s=0.0, request_bytes_max=250)
    for partition in range(3):
        add(outbox, partition=partition)
        add(outbox, partition=partition)
    first = drain(outbox)
    assert [batch.target.partition for batch in first.requests[1]] == [0, 1]
    assert first.next_at_s == 0.0
    outbox.acknowledge(first.requests[1][0])
    add(outbox, partition=0)
    assert [batch.target.partition for batch in drain(outbox).requests[1]] == [2, 0]


def test_without_an_identity_nothing_leaves() -> None:
    outbox = new_outbox(linger_s=0.0)
    add(outbox)
    assert outbox.drain(0.0, lambda _: 1, lambda _: True, None).requests == {}


def test_a_gap_stops_the_partition_until_it_starts_over() -> None:
    outbox = new_outbox(linger_s=0.0)
    add(outbox)
    (lost,) = drain(outbox).requests[1]
    outbox.depart([lost], "connection", {})
    outbox.give_up(lost)
    add(outbox)
    (queue,) = drain(outbox).restarting
    outbox.restart(queue, Identity(7, 1))
    (batch,) = drain(outbox, identity=Identity(7, 1)).requests[1]
    assert batch.stamp == (7, 1, 0)


def test_a_split_batch_stands_where_it_stood() -> None:
    outbox = new_outbox(linger_s=0.0, batch_size_bytes=1000)
    for index in range(4):
        add(outbox, b"%d" % index)
    (whole,) = drain(outbox).requests[1]
    add(outbox, b"after")
    outbox.replace(whole, whole.split())
    seen = []
    for _ in range(3):
        (batch,) = drain(outbox).requests[1]
        seen.append((batch.stamp.base_sequence, values(batch)))
        outbox.acknowledge(batch)
    assert seen == [(0, [b"0", b"1"]), (2, [b"2", b"3"]), (4, [b"after"])]
    assert outbox.held_bytes == 0


def test_memory_is_bounded_and_given_back() -> None:
    outbox = new_outbox(buffer_bytes_max=300, linger_s=0.0)
    assert add(outbox, size=200) is not None
    assert add(outbox, size=200) is None
    (batch,) = drain(outbox).requests[1]
    outbox.acknowledge(batch)
    assert add(outbox, size=200) is not None
    # A record larger than all the memory goes alone.
    (batch,) = drain(outbox).requests[1]
    outbox.acknowledge(batch)
    assert add(outbox, size=5000) is not None


def test_a_thread_waits_for_room_and_no_batch_lingers_meanwhile() -> None:
    outbox = new_outbox(buffer_bytes_max=200, linger_s=1000.0)
    add(outbox, size=100)
    assert not outbox.wait_for_room(100, 0.01)
    found: list[bool] = []
    waiter = threading.Thread(target=lambda: found.append(outbox.wait_for_room(100, 20)))
    waiter.start()
    batches: list[Batch] = []
    while not batches:  # the batch leaves as soon as somebody waits
        batches = drain(outbox).requests.get(1, [])
    outbox.acknowledge(batches[0])
    outbox.tell_progress()
    waiter.join(60)
    assert found == [True]


def test_whole_batches_go_between_records_in_order() -> None:
    outbox = new_outbox(linger_s=0.0)
    introduce(outbox)
    add(outbox, b"before")
    from tailrace.client.produce.row import ProducerStamp, encode_rows

    data = encode_rows([(1, None, b"whole", ())], Compression.NONE, None, ProducerStamp())
    assert outbox.add_encoded(T0, ThreadReceipt(), data, 1, 0.0)
    add(outbox, b"after")
    seen = []
    for _ in range(3):
        (batch,) = drain(outbox).requests[1]
        seen.append((batch.stamp.base_sequence, values(batch)))
    assert seen == [(1, [b"before"]), (2, [b"whole"]), (3, [b"after"])]


def test_closing_gives_back_what_was_not_sent() -> None:
    outbox = new_outbox()
    future, _ = add(outbox)
    (left,) = outbox.close()
    left.fail(ClientClosed("over"))
    with pytest.raises(ClientClosed, match="over"):
        future.result(0)
    with pytest.raises(ClientClosed):
        add(outbox)


def test_futures_of_a_split_batch_settle_with_their_parts() -> None:
    outbox = new_outbox(linger_s=0.0, batch_size_bytes=1000)
    futures = [add(outbox, b"%d" % index)[0] for index in range(4)]
    called: list[int] = []
    futures[3].add_done_callback(lambda future: called.append(future.result().offset))
    (whole,) = drain(outbox).requests[1]
    first, second = whole.split()
    first.succeed(Outcome(10))
    assert [future.done() for future in futures] == [True, True, False, False]
    with pytest.raises(TimeoutError):
        futures[2].result(0.01)
    second.succeed(Outcome(50))
    assert [future.result(0).offset for future in futures] == [10, 11, 50, 51]
    assert called == [51]
    assert not futures[0].cancel()
