"""Sequence numbers: what is sent when, and how a gap is closed."""

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.delivery import ThreadReceipt
from tailrace.client.produce.sequence import REMEMBERED_BATCH_COUNT, Identity, PartitionSequence
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


def attempt(*batches: Batch) -> None:
    """Send batches; the reply never comes."""
    for item in batches:
        item.unanswered_count += 1


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
    attempt(first)
    sequence.give_up(first)
    assert not sequence.may_take(batch(9))
    assert sequence.may_take(second)
    sequence.acknowledge(second)  # so the first is in the log as well
    assert not sequence.settle_doubt()
    assert sequence.may_take(batch(9))


def test_without_a_later_acknowledgement_the_numbers_start_over() -> None:
    sequence, (first,) = numbered(1)
    attempt(first)
    sequence.give_up(first)
    assert sequence.settle_doubt()


def test_a_refused_last_batch_gives_its_numbers_back() -> None:
    sequence, (first, second) = numbered(2, 2)
    sequence.acknowledge(first)
    sequence.give_up(second)
    other = batch(3)
    assert sequence.may_take(other)
    sequence.assign(other, ME)
    assert stamps([other]) == [(0, 2)]


@pytest.mark.parametrize(
    ("unanswered_count", "is_last", "is_reused"),
    [(0, True, True), (0, False, False), (1, True, False), (2, True, False), (1, False, False)],
)
def test_only_numbers_that_cannot_be_written_are_used_again(
    unanswered_count: int, is_last: bool, is_reused: bool
) -> None:
    """The reply of a batch was lost and its repetition was refused. The next batch got its number.

    The broker took that one for a duplicate and acknowledged it, and it was lost.
    """
    sequence, (first, second, *later) = numbered(2, 2, *([] if is_last else [2]))
    sequence.acknowledge(first)
    second.unanswered_count = unanswered_count
    sequence.give_up(second)
    for item in later:
        sequence.give_up(item)
    assert sequence.settle_doubt() is not is_reused
    if is_reused:
        other = batch(9)
        sequence.assign(other, ME)
        assert stamps([other]) == [(0, 2)]


def test_numbers_before_an_acknowledged_one_are_not_used_again() -> None:
    sequence, (first, second) = numbered(2, 2)
    sequence.acknowledge(second)
    sequence.give_up(first)
    assert not sequence.settle_doubt()
    other = batch(9)
    sequence.assign(other, ME)
    assert stamps([other]) == [(0, 4)]


@pytest.mark.parametrize(
    ("sent", "acknowledged", "written"),
    [
        ([0, 1, 2], [], []),
        ([0, 1, 2], [1], [0]),
        ([0, 1, 2], [2], [0, 1]),
        ([0, 1, 2], [0], []),
        ([1, 2], [2], [1]),  # all attempts to send batch 0 were rejected
    ],
)
def test_what_was_sent_before_an_acknowledged_batch_is_written(
    sent: list[int], acknowledged: list[int], written: list[int]
) -> None:
    """A broker that had forgotten a batch refused its retry. The producer took that for a gap, and wrote it again."""
    sequence, batches = numbered(1, 1, 1)
    attempt(*(batches[index] for index in sent))
    for index in acknowledged:
        sequence.acknowledge(batches[index])
    left = [index for index in range(3) if index not in acknowledged]
    assert [index for index in left if sequence.is_written(batches[index])] == written


def test_after_a_restart_nothing_is_known_to_be_written() -> None:
    sequence, (first, second) = numbered(1, 1)
    attempt(second)
    sequence.acknowledge(second)
    sequence.refuse(first)
    sequence.restart(LATER)
    attempt(first)
    assert not sequence.is_written(first)


def test_a_batch_that_may_be_written_gets_no_other_number() -> None:
    sequence, (first, second) = numbered(1, 1)
    attempt(second)
    sequence.refuse(first)
    with pytest.raises(InvariantError, match="may be written"):
        sequence.restart(LATER)


def test_a_late_acknowledgement_of_an_early_batch_leaves_no_doubt() -> None:
    sequence, (first, second, third) = numbered(1, 1, 1)
    attempt(first, second, third)
    sequence.give_up(first)
    sequence.acknowledge(third)
    sequence.acknowledge(second)  # as a duplicate
    assert not sequence.settle_doubt()


def test_no_batch_is_numbered_that_the_broker_could_not_remember_with_the_first_unanswered_one() -> None:
    sequence, batches = numbered(*[1] * REMEMBERED_BATCH_COUNT)
    for item in batches[1:]:
        sequence.acknowledge(item)
    sixth = batch(9)
    assert not sequence.may_take(sixth)
    with pytest.raises(InvariantError, match="must remember 6 batches"):
        sequence.assign(sixth, ME)


@pytest.mark.parametrize("end", ["acknowledge", "give_up"])
def test_the_outcome_of_the_first_batch_makes_room(end: str) -> None:
    sequence, batches = numbered(*[1] * REMEMBERED_BATCH_COUNT)
    sequence.acknowledge(batches[1])
    getattr(sequence, end)(batches[0])
    sequence.is_in_doubt = False
    new = [batch(9), batch(10)]
    for item in new:
        assert sequence.may_take(item)
        sequence.assign(item, ME)
    assert not sequence.may_take(batch(11))


def test_a_refused_batch_in_the_middle_is_a_gap() -> None:
    sequence, (first, second) = numbered(2, 2)
    sequence.give_up(first)
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
