"""How far the next micro-batch of a stream goes."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.admission import Admission, share_out
from tailrace.spark.option import AdmissionOptions
from tailrace.spark.position import Offsets

A, B, C = (TopicPartition("t", index) for index in range(3))


def admit(admission: Admission, start: Offsets, latest: Offsets, now_ms: float = 0, **given: object) -> Offsets | None:
    options = {"offsets_max": admission.options.offsets_max, "may_wait": True, "now_ms": now_ms} | given
    return admission.admit(start, latest, **options)  # type: ignore[arg-type]


def test_without_limits_a_batch_takes_everything() -> None:
    assert admit(Admission(AdmissionOptions()), {A: 0, B: 5}, {A: 100, B: 7}) == {A: 100, B: 7}


def test_a_most_is_shared_out_by_what_each_partition_has() -> None:
    admission = Admission(AdmissionOptions(offsets_max=100))
    assert admit(admission, {A: 0, B: 1000}, {A: 300, B: 1100}) == {A: 75, B: 1025}


def test_a_small_partition_is_not_starved() -> None:
    assert share_out(10, {A: 0, B: 0}, {A: 1_000_000, B: 1}) == {A: 9, B: 1}


def test_a_partition_without_news_stays_where_it_is() -> None:
    assert share_out(10, {A: 0, B: 7}, {A: 20, B: 7}) == {A: 10, B: 7}


def test_a_partition_that_went_back_is_left_for_the_planning_to_notice() -> None:
    assert share_out(10, {A: 0, B: 7}, {A: 20, B: 3}) == {A: 10, B: 3}


def test_a_partition_that_is_gone_is_not_in_the_end() -> None:
    assert share_out(10, {A: 0, C: 5}, {A: 20}) == {A: 10}


def test_very_large_offsets_do_not_overflow() -> None:
    end = 2**63 - 1
    assert share_out(end, {A: 5}, {A: end}) == {A: end}


POSITIONS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**30)), min_size=1, max_size=20)


@given(POSITIONS, st.integers(1, 2**31))
def test_a_share_is_never_beyond_the_end_and_all_is_read_at_last(pairs: list[tuple[int, int]], most: int) -> None:
    start = {TopicPartition("t", index): offset for index, (offset, _) in enumerate(pairs)}
    latest = {TopicPartition("t", index): offset + size for index, (offset, size) in enumerate(pairs)}
    end = share_out(most, start, latest)
    assert all(start[key] <= end[key] <= latest[key] for key in latest)
    assert sum(end[key] - start[key] for key in latest) <= most + len(pairs)
    assert end == latest or any(end[key] > start[key] for key in latest)


def test_a_batch_waits_for_enough() -> None:
    admission = Admission(AdmissionOptions(offsets_min=10, delay_max_ms=1000))
    assert admit(admission, {A: 0}, {A: 3}, now_ms=5) == {A: 3}  # the first one does not wait, as in Kafka's connector
    assert admit(admission, {A: 3}, {A: 12}, now_ms=6) is None
    assert admit(admission, {A: 3}, {A: 13}, now_ms=7) == {A: 13}


def test_it_does_not_wait_for_ever() -> None:
    admission = Admission(AdmissionOptions(offsets_min=10, delay_max_ms=1000))
    assert admit(admission, {A: 0}, {A: 3}, now_ms=5) == {A: 3}
    assert admit(admission, {A: 3}, {A: 4}, now_ms=1004) is None
    assert admit(admission, {A: 3}, {A: 4}, now_ms=1005) == {A: 4}
    assert admit(admission, {A: 4}, {A: 5}, now_ms=1006) is None


def test_new_partitions_count_from_their_beginning() -> None:
    admission = Admission(AdmissionOptions(offsets_min=10, offsets_max=10), last_batch_ms=0)
    assert admit(admission, {A: 5, B: 100}, {A: 5, B: 109}) is None
    assert admit(admission, {A: 5, B: 100}, {A: 5, B: 120}) == {A: 5, B: 110}


def test_a_batch_that_may_not_wait_takes_what_there_is() -> None:
    """A query that ends with what is there now would otherwise never get to the rest."""
    admission = Admission(AdmissionOptions(offsets_min=10), last_batch_ms=0)
    assert admit(admission, {A: 0}, {A: 3}, may_wait=False) == {A: 3}


def test_the_engine_may_ask_for_everything_whatever_the_options_say() -> None:
    admission = Admission(AdmissionOptions(offsets_max=1))
    assert admit(admission, {A: 0}, {A: 3}, offsets_max=None) == {A: 3}
