"""Sequence numbers: what is sent when, and how a gap is closed."""

from tailrace.client.produce.batch import Batch
from tailrace.client.produce.delivery import ThreadReceipt
from tailrace.client.produce.sequence import Identity, PartitionSequence
from tailrace.client.topic_partition import TopicPartition

ME = Identity(7, 0)
LATER = Identity(7, 1)


def batch(order: int, count: int = 3) -> Batch:
    made = Batch(TopicPartition("t", 0), ThreadReceipt(), 0.0, (order,))
    for _ in range(count):
        made.append((0, None, b"v", ()), 1)
    return made


def numbered(*counts: int) -> tuple[PartitionSequence, list[Batch]]:
    sequence = PartitionSequence()
    batches = [batch(order, count) for order, count in enumerate(counts)]
    for item in batches:
        sequence.assign(item, ME)
    return sequence, batches


def stamps(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(item.stamp.producer_epoch, item.stamp.base_sequence) for item in batches]


def test_numbers_follow_one_another() -> None:
    _, batches = numbered(3, 1, 5)
    assert stamps(batches) == [(0, 0), (0, 3), (0, 4)]


def test_after_the_last_number_comes_the_first() -> None:
    sequence, _ = numbered(1)
    sequence._next = 2**31 - 2
    last, first = batch(1, 3), batch(2)
    sequence.assign(last, ME)
    sequence.assign(first, ME)
    assert stamps([last, first]) == [(0, 2**31 - 2), (0, 1)]


def test_of_what_was_sent_before_only_the_first_goes_again() -> None:
    sequence, (first, second) = numbered(1, 1)
    assert sequence.may_take(first)
    assert not sequence.may_take(second)
    sequence.acknowledge(first)
    assert sequence.may_take(second)


def test_the_first_batch_travels_alone() -> None:
    """Without that, a broker took the second batch of a producer it did not know and refused the first for good."""
    sequence, (first,) = numbered(2)
    assert not sequence.may_take(batch(1))
    sequence.acknowledge(first)
    second = batch(1)
    assert sequence.may_take(second)
    sequence.assign(second, ME)
    assert sequence.may_take(batch(2))


def test_a_refusal_behind_one_that_goes_again_means_nothing() -> None:
    sequence, (first, second) = numbered(1, 1)
    sequence.refuse(second)
    assert not sequence.must_restart
    sequence.refuse(first)
    assert sequence.must_restart


def test_a_restart_numbers_what_waits_anew_with_a_higher_epoch() -> None:
    sequence, (first, second) = numbered(2, 2)
    sequence.refuse(first)
    assert sequence.settle_doubt()
    assert not sequence.may_take(first)
    sequence.restart(LATER)
    assert stamps([first, second]) == [(1, 0), (1, 2)]
    assert sequence.may_take(first)


def test_one_given_up_stops_new_batches_until_it_is_known_what_became_of_it() -> None:
    sequence, (first, second) = numbered(1, 1)
    sequence.give_up(first, is_refused=False)
    assert not sequence.may_take(batch(9))
    assert sequence.may_take(second)
    sequence.acknowledge(second)  # so the first is in the log as well
    assert not sequence.settle_doubt()
    assert sequence.may_take(batch(9))


def test_without_a_later_acknowledgement_the_numbers_start_over() -> None:
    sequence, (first,) = numbered(1)
    sequence.give_up(first, is_refused=False)
    assert sequence.settle_doubt()


def test_a_refused_last_batch_gives_its_numbers_back() -> None:
    sequence, (first, second) = numbered(2, 2)
    sequence.acknowledge(first)
    sequence.give_up(second, is_refused=True)
    other = batch(3)
    assert sequence.may_take(other)
    sequence.assign(other, ME)
    assert stamps([other]) == [(0, 2)]


def test_a_refused_batch_in_the_middle_is_a_gap() -> None:
    sequence, (first, second) = numbered(2, 2)
    sequence.give_up(first, is_refused=True)
    sequence.refuse(second)  # the broker waits for the number of the first
    assert sequence.must_restart


def test_a_newer_identity_is_taken_on_when_nothing_is_under_way() -> None:
    sequence, (first,) = numbered(2)
    second, third = batch(2), batch(3)
    sequence.assign(second, LATER)
    assert stamps([second]) == [(0, 2)]
    sequence.acknowledge(first)
    sequence.acknowledge(second)
    sequence.assign(third, LATER)
    assert stamps([third]) == [(1, 0)]


def test_parts_have_the_numbers_of_the_whole() -> None:
    sequence, (whole, after) = numbered(5, 1)
    parts = whole.split()
    sequence.replace(whole, parts)
    assert [part.record_count for part in parts] == [2, 3]
    assert stamps([*parts, after]) == [(0, 0), (0, 2), (0, 5)]
    assert sequence.unsettled == [*parts, after]
