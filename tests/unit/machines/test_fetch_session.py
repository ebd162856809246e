"""Fetch sessions (KIP-227) as scripts: what a request says, and what the session makes of it."""

from collections.abc import Iterable, Sequence
from itertools import count
from uuid import UUID

import pytest

from tailrace.machines.fetch_session import FetchContext, FetchPartition, FetchSessions, Key
from tailrace.protocol.errors import ApiError, ErrorCode

EVICTION_MS = 1000
A, B, C = ("a", 0), ("a", 1), ("b", 0)


class Script:
    """Sends requests to sessions whose ids are 1, 2, 3 …"""

    def __init__(self, slot_count_max: int = 10, **bounds: int) -> None:
        self.sessions = FetchSessions(slot_count_max, EVICTION_MS, count(1).__next__, **bounds)
        self.now_ms = 0

    def ask(
        self,
        session_id: int,
        epoch: int,
        wanted: Iterable[Key] = (),
        forgotten: Iterable[Key] = (),
        *,
        ids: bool = False,
        offset: int = 0,
    ) -> FetchContext:
        partitions = [FetchPartition(key, offset) for key in wanted]
        return self.sessions.begin(self.now_ms, session_id, epoch, partitions, forgotten, ids)

    def refusal(self, session_id: int, epoch: int, *, ids: bool = False) -> ErrorCode:
        with pytest.raises(ApiError) as caught:
            self.ask(session_id, epoch, ids=ids)
        return caught.value.code


def keys(context: FetchContext) -> list[Key]:
    return [partition.key for partition in context.partitions]


def offsets(context: FetchContext) -> dict[Key, object]:
    return {partition.key: partition.wanted for partition in context.partitions}


# --- opening and closing


def test_epoch_zero_opens_a_session_and_is_answered_in_full() -> None:
    script = Script()
    context = script.ask(0, 0, [A, B])
    assert (context.session_id, context.incremental, keys(context)) == (1, False, [A, B])
    assert len(script.sessions) == 1


def test_epoch_minus_one_without_an_id_opens_none() -> None:
    script = Script()
    context = script.ask(0, -1, [A])
    assert (context.session_id, context.incremental, keys(context)) == (0, False, [A])
    assert len(script.sessions) == 0


def test_epoch_minus_one_closes_and_still_answers() -> None:
    script = Script()
    script.ask(0, 0, [A])
    context = script.ask(1, -1, [B])
    assert (context.session_id, keys(context)) == (0, [B])
    assert script.refusal(1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_zero_with_an_id_replaces_that_session() -> None:
    script = Script()
    script.ask(0, 0, [A])
    assert script.ask(1, 0, [B]).session_id == 2
    assert len(script.sessions) == 1
    assert script.refusal(1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert keys(script.ask(2, 1)) == [B]


def test_closing_a_session_that_is_not_there_is_no_error() -> None:
    script = Script()
    assert script.ask(77, -1, [A]).session_id == 0
    assert script.ask(77, 0, [A]).session_id == 1


def test_nobody_needs_a_session_for_nothing() -> None:
    script = Script()
    assert script.ask(0, 0, []).session_id == 0
    assert len(script.sessions) == 0


def test_an_id_is_never_zero_or_taken() -> None:
    ids = iter([0, 5, 5, 0, 6])
    sessions = FetchSessions(10, EVICTION_MS, ids.__next__)
    given = [sessions.begin(0, 0, 0, [FetchPartition(A, 0)], (), False).session_id for _ in range(2)]
    assert given == [5, 6]


# --- going on


def test_an_incremental_fetch_remembers_what_it_is_not_told() -> None:
    script = Script()
    script.ask(0, 0, [A, B], offset=3)
    context = script.ask(1, 1, [B], offset=8)
    assert (context.session_id, context.incremental) == (1, True)
    assert offsets(context) == {A: 3, B: 8}
    assert offsets(script.ask(1, 2)) == {A: 3, B: 8}


def test_partitions_join_and_leave() -> None:
    script = Script()
    script.ask(0, 0, [A, B])
    assert keys(script.ask(1, 1, [C], [A])) == [B, C]
    assert keys(script.ask(1, 2, [], [B])) == [C]


def test_what_is_wanted_and_forgotten_at_once_is_forgotten() -> None:
    script = Script()
    script.ask(0, 0, [A])
    assert keys(script.ask(1, 1, [B], [B])) == [A]


def test_forgetting_what_was_never_there_is_no_error() -> None:
    script = Script()
    script.ask(0, 0, [A])
    assert keys(script.ask(1, 1, [], [C])) == [A]


def test_a_session_without_partitions_is_closed() -> None:
    script = Script()
    script.ask(0, 0, [A])
    context = script.ask(1, 1, [], [A])
    assert (context.session_id, context.incremental, keys(context)) == (0, False, [])
    assert script.refusal(1, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_that_comes_back_has_been_told_nothing() -> None:
    script = Script()
    (partition,) = script.ask(0, 0, [A]).partitions
    partition.told(0, 5, 0)
    script.ask(1, 1, [B], [A])
    again = next(each for each in script.ask(1, 2, [A]).partitions if each.key == A)
    assert again.has_news(0, 0, 5, 0)


# --- out of step


@pytest.mark.parametrize("epoch", [2, 3, 2**31 - 1, -2])
def test_another_epoch_than_the_next_is_refused(epoch: int) -> None:
    script = Script()
    script.ask(0, 0, [A])
    assert script.refusal(1, epoch) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_repeated_epoch_is_refused_and_the_session_goes_on() -> None:
    script = Script()
    script.ask(0, 0, [A])
    script.ask(1, 1)
    assert script.refusal(1, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert keys(script.ask(1, 2)) == [A]


@pytest.mark.parametrize("session_id", [0, 2, -1])
def test_a_session_that_is_not_there_is_refused(session_id: int) -> None:
    script = Script()
    script.ask(0, 0, [A])
    assert script.refusal(session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_after_the_last_epoch_comes_one() -> None:
    script = Script()
    session = script.ask(0, 0, [A]).session
    assert session is not None
    session.epoch = 2**31 - 1
    assert keys(script.ask(1, 2**31 - 1)) == [A]
    assert keys(script.ask(1, 1)) == [A]


@pytest.mark.parametrize("ids", [False, True])
def test_a_session_keeps_to_names_or_to_ids(ids: bool) -> None:
    script = Script()
    key: Key = (UUID(int=9), 0) if ids else A
    script.ask(0, 0, [key], ids=ids)
    assert script.refusal(1, 1, ids=not ids) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert keys(script.ask(1, 1, ids=ids)) == [key]


def test_who_is_out_of_step_hears_that_first() -> None:
    """Names and ids were compared before epochs. Kafka says first that the epoch is wrong."""
    script = Script()
    script.ask(0, 0, [A])
    assert script.refusal(1, 7, ids=True) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


# --- slots


def test_without_a_free_slot_there_is_no_session() -> None:
    script = Script(slot_count_max=1)
    script.ask(0, 0, [A])
    script.now_ms = EVICTION_MS
    context = script.ask(0, 0, [B])
    assert (context.session_id, keys(context)) == (0, [B])
    assert keys(script.ask(1, 1)) == [A]


def test_the_stalest_session_makes_room_when_it_is_old_enough() -> None:
    script = Script(slot_count_max=2)
    script.ask(0, 0, [A])
    script.ask(0, 0, [B])
    script.now_ms = 500
    script.ask(1, 1)  # session 2 is now the stalest
    script.now_ms = EVICTION_MS + 1
    assert script.ask(0, 0, [C]).session_id == 3
    assert script.refusal(2, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert keys(script.ask(1, 2)) == [A]
    assert len(script.sessions) == 2


def test_who_replaces_its_own_session_needs_no_other_slot() -> None:
    script = Script(slot_count_max=1)
    script.ask(0, 0, [A])
    assert script.ask(1, 0, [A]).session_id == 2


def test_no_slots_mean_no_sessions() -> None:
    script = Script(slot_count_max=0)
    script.now_ms = 10 * EVICTION_MS
    assert script.ask(0, 0, [A]).session_id == 0


# --- partitions


def test_a_session_that_does_not_fit_beside_the_others_is_not_opened() -> None:
    """Nothing bounded the partitions of all sessions, which need not exist: 1,000 sessions could take 72 GB."""
    script = Script(partition_count_max=3)
    script.ask(0, 0, [A, B])
    context = script.ask(0, 0, [A, B])
    assert (context.session_id, keys(context)) == (0, [A, B])
    assert script.ask(0, 0, [C]).session_id == 2
    script.ask(1, -1)
    assert script.ask(0, 0, [A, B]).session_id == 3


def test_sessions_that_are_old_enough_make_room_for_partitions() -> None:
    script = Script(partition_count_max=2)
    script.ask(0, 0, [A])
    script.ask(0, 0, [B])
    script.now_ms = EVICTION_MS + 1
    assert script.ask(0, 0, [A, B, C]).session_id == 0
    assert len(script.sessions) == 2
    assert script.ask(0, 0, [A, B]).session_id == 3
    assert len(script.sessions) == 1


@pytest.mark.parametrize("bound", ["partition_count_max", "session_partition_count_max"])
def test_a_session_that_grows_too_large_is_closed(bound: str) -> None:
    """A session grew by 200,000 partitions with each incremental request, and a fetch of 40 bytes walked them all."""
    script = Script(**{bound: 2})
    script.ask(0, 0, [A])
    assert keys(script.ask(1, 1, [B])) == [A, B]
    assert keys(script.ask(1, 2, [C], [A])) == [B, C]
    with pytest.raises(ApiError) as caught:
        script.ask(1, 3, [A])
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(script.sessions) == 0
    assert script.ask(0, 0, [A, B]).session_id == 2


def test_a_follower_has_room_for_all_its_partitions() -> None:
    script = Script(slot_count_max=0, partition_count_max=1, session_partition_count_max=1)
    wanted = [FetchPartition(key, 0) for key in (A, B, C)]
    context = script.sessions.begin(0, 0, 0, wanted[:2], (), False, "follower")
    assert context.session_id == 1
    assert keys(script.sessions.begin(0, 1, 1, wanted[2:], (), False, "follower")) == [A, B, C]


# --- news and turns


@pytest.mark.parametrize(
    ("change", "news"),
    [
        ((0, 0, 5, 1), False),
        ((0, 10, 5, 1), True),
        ((0, 0, 6, 1), True),
        ((0, 0, 5, 2), True),
        ((3, 0, -1, -1), True),
    ],
    ids=["nothing", "data", "high watermark", "log start", "error"],
)
def test_what_is_news(change: tuple[int, int, int, int], news: bool) -> None:
    partition = FetchPartition(A, 0)
    assert partition.has_news(0, 0, 5, 1)
    partition.told(0, 5, 1)
    assert [partition.has_news(*change) for _ in range(2)] == [news, news]


def test_an_error_is_news_every_time_and_so_is_what_follows_it() -> None:
    partition = FetchPartition(A, 0)
    partition.told(0, 5, 1)
    for _ in range(2):
        assert partition.has_news(3, 0, 5, 1)
        partition.told(3, 5, 1)
    assert partition.has_news(0, 0, 5, 1)
    partition.told(0, 5, 1)
    assert not partition.has_news(0, 0, 5, 1)


def test_who_got_data_comes_last_next_time() -> None:
    script = Script()
    session = script.ask(0, 0, [A, B, C]).session
    assert session is not None
    session.served([A])
    assert keys(script.ask(1, 1)) == [B, C, A]
    session.served([B, A])
    assert keys(script.ask(1, 2)) == [C, B, A]


def test_in_a_reply_with_room_for_one_every_busy_partition_gets_its_turn() -> None:
    script = Script()
    context = script.ask(0, 0, [A, B, C])
    turns = []
    for epoch in range(1, 7):
        first = context.partitions[0].key
        turns.append(first)
        assert context.session is not None
        context.session.served([first])
        context = script.ask(1, epoch)
    assert turns == [A, B, C, A, B, C]


def test_what_was_forgotten_meanwhile_does_not_come_back() -> None:
    script = Script()
    session = script.ask(0, 0, [A, B]).session
    assert session is not None
    script.ask(1, 1, [], [A])
    session.served([A])
    assert keys(script.ask(1, 2)) == [B]


def test_an_answer_in_progress_keeps_its_partitions() -> None:
    script = Script()
    script.ask(0, 0, [A, B])
    context: FetchContext = script.ask(1, 1)
    partitions: Sequence[FetchPartition] = context.partitions
    script.ask(1, 2, [], [A])
    assert [partition.key for partition in partitions] == [A, B]
