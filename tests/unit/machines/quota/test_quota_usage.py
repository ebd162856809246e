"""How long a client pauses, compared with a model that adds up all that was taken."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.machines.quota import naive

from tailrace.base.limits import QUOTA_BUCKET_IDLE_MS
from tailrace.machines.quota.key import QuotaKey
from tailrace.machines.quota.table import Identity, Limit
from tailrace.machines.quota.usage import QuotaUsage

PRODUCE = QuotaKey.PRODUCE


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 5000)), min_size=1, max_size=20),
    st.sampled_from([1.0, 10.0, 1000.0]),
    st.sampled_from([0.0, 1.0, 11.0]),
)
def test_a_bucket_is_as_strict_as_the_sum_of_all_that_was_taken(
    steps: list[tuple[int, int]], rate: float, burst_s: float
) -> None:
    usage, limit = QuotaUsage(), Limit(rate, Identity("u"))
    now_ms = 1_000
    taken: list[naive.Taken] = []
    for wait_ms, amount in steps:
        now_ms += wait_ms
        taken.append(naive.Taken(now_ms, amount))
        rest_ms = usage.take(PRODUCE, limit, amount, now_ms, burst_s)
        assert abs(rest_ms - naive.rest_ms(taken, rate, burst_s, now_ms)) < 1e-3


def test_a_client_that_pauses_keeps_the_rate() -> None:
    usage, limit = QuotaUsage(), Limit(1000.0, Identity("u"))
    now_ms, total = 0, 0
    while now_ms < 60_000:
        rest_ms = usage.take(PRODUCE, limit, 700, now_ms, 1.0)
        total += 700
        now_ms += round(rest_ms) + 1
    assert 60_000 <= total <= 60_000 + 1000 + 700


def test_a_changed_rate_counts_at_once() -> None:
    usage, identity = QuotaUsage(), Identity("u")
    assert usage.take(PRODUCE, Limit(1.0, identity), 1001, 0, 1.0) == 1_000_000
    assert usage.rest_ms(PRODUCE, Limit(1000.0, identity), 0, 1.0) == 1_000
    assert usage.rest_ms(PRODUCE, Limit(10.0, identity), 50_000, 1.0) == 50_000


def test_room_is_what_an_idle_client_saved_up() -> None:
    usage, limit = QuotaUsage(), Limit(1000.0, Identity("u"))
    assert usage.room(PRODUCE, limit, 0, 1.0) == 1000
    usage.take(PRODUCE, limit, 1500, 0, 1.0)
    assert usage.room(PRODUCE, limit, 0, 1.0) == 0
    assert usage.room(PRODUCE, limit, 700, 1.0) == 200
    assert usage.room(PRODUCE, limit, 1_000_000, 1.0) == 1000


def test_identities_and_quotas_do_not_share() -> None:
    usage = QuotaUsage()
    assert usage.take(PRODUCE, Limit(1.0, Identity("u")), 10, 0, 0.0) == 10_000
    assert usage.take(PRODUCE, Limit(1.0, Identity("v")), 1, 0, 0.0) == 1_000
    assert usage.take(PRODUCE, Limit(1.0, Identity(None, "u")), 2, 0, 0.0) == 2_000
    assert usage.take(QuotaKey.FETCH, Limit(1.0, Identity("u")), 3, 0, 0.0) == 3_000


def test_invented_client_ids_cost_bounded_memory_and_spare_clients_that_are_active() -> None:
    usage = QuotaUsage(count_max=100)
    busy = Limit(1.0, Identity("u"))
    usage.take(PRODUCE, busy, 1000, 0, 1.0)
    for number in range(10_000):
        usage.take(PRODUCE, Limit(1.0, Identity(None, f"c{number}")), 1000, number, 1.0)
        assert usage.rest_ms(PRODUCE, busy, number, 1.0) > 0
    assert len(usage) == 100


def test_buckets_that_nobody_uses_are_dropped() -> None:
    usage = QuotaUsage()
    for number in range(50):
        usage.take(PRODUCE, Limit(1.0, Identity(f"u{number}")), 1, number, 1.0)
    usage.take(PRODUCE, Limit(1.0, Identity("late")), 1, QUOTA_BUCKET_IDLE_MS + 25, 1.0)
    assert len(usage) == 50 - 26 + 1
