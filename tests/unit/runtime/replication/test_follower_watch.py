"""A follower's session knows by itself which of its partitions have news."""

import asyncio

from tests.settled import settled
from tests.unit.runtime.test_partition_role import Bench

from tailrace.machines.fetch_session import FetchPartition, FetchSessions
from tailrace.machines.replica.leader import LeaderReplica
from tailrace.runtime.fetch_wait import FetchWait
from tailrace.runtime.replication.follower_watch import FollowerWatch

KEY = ("t", 0)


def begun() -> tuple[Bench, FollowerWatch]:
    bench, watch = Bench(), FollowerWatch()
    bench.lead(isr=(1, 2))
    watch.begin(0, [KEY], [])
    watch.look(KEY, bench.partition)
    watch.told(KEY)
    return bench, watch


def test_what_is_named_written_committed_or_led_by_another_is_news() -> None:
    bench, watch = begun()
    assert watch.news() == []
    bench.append(b"a")
    assert watch.news() == [KEY]
    watch.told(KEY)
    bench.fetch(2, 1)
    assert watch.news() == [KEY]
    watch.told(KEY)
    bench.follow(1)
    assert watch.news() == [KEY]
    watch.told(KEY)
    watch.begin(1, [KEY], [])
    assert watch.news() == [KEY]


def test_what_is_forgotten_or_closed_tells_nothing_any_more() -> None:
    bench, watch = begun()
    watch.begin(1, [], [KEY])
    bench.append(b"a")
    assert watch.news() == []
    watch.look(KEY, bench.partition)
    watch.close()
    bench.append(b"a")
    assert watch.news() == []


def test_another_partition_of_the_same_name_takes_over() -> None:
    bench, watch = begun()
    other = Bench()
    other.lead(isr=(1, 2))
    watch.look(KEY, other.partition)
    watch.told(KEY)
    bench.append(b"a")
    assert watch.news() == []
    other.append(b"a")
    assert watch.news() == [KEY]


async def test_a_fetch_that_waits_is_woken_by_what_is_written_and_not_by_what_is_committed() -> None:
    bench, watch = begun()
    waiting = asyncio.create_task(watch.wait(FetchWait(1), 20))
    await settled()
    bench.partition.advance_high_watermark(0, 100)
    await settled()
    assert not waiting.done()
    bench.append(b"a")
    await waiting


def test_a_follower_has_one_session_and_the_next_closes_it() -> None:
    sessions = FetchSessions(0, 1000, iter(range(1, 9)).__next__)

    def begin(owner: object) -> FollowerWatch | None:
        context = sessions.begin(0, 0, 0, [FetchPartition(KEY, 0)], (), True, owner)
        if context.session is None:
            return None
        watch = context.session.attached = FollowerWatch()
        return watch

    bench = Bench()
    bench.lead(isr=(1, 2))
    assert begin(None) is None  # there is no slot for a consumer
    first = begin("follower")
    assert first is not None
    first.look(KEY, bench.partition)
    first.told(KEY)
    second = begin("follower")
    assert len(sessions) == 1
    bench.append(b"a")
    assert first.news() == []
    assert second is not None


def test_an_idle_follower_was_in_sync_for_as_long_as_its_session_fetched() -> None:
    """Its fetches do not name a partition in which nothing happens; it must not seem to have been away since."""
    watch = FollowerWatch()
    machine = LeaderReplica(
        1, 0, replicas=(1, 2), isr=(1, 2), epoch_start_offset=0, min_isr=1, lag_max_ms=1000, now_ms=0
    )
    machine.on_fetch(2, 1, 0, 0, 0, 0, watch)
    watch.fetched_ms = 50_000
    machine.on_append(0)
    assert machine.decide_shrink(1, 50_900) is None
    assert machine.decide_shrink(1, 51_001) == (1,)
