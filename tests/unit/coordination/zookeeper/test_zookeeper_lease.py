"""How long a session certainly lives, against the worst that a leader of an ensemble may do."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordination.zookeeper.lease import HEARTBEATS_PER_TIMEOUT, Lease

TIMEOUT_MS = 1200
LEASE_MS = 1176  # shorter by two hundredths, for clocks that run apart
DRIFT = 1.01


def connected(sent_ms: float = 0) -> Lease:
    lease = Lease()
    lease.connect(sent_ms, TIMEOUT_MS)
    return lease


def test_before_and_after_a_session_there_is_no_lease() -> None:
    lease = Lease()
    assert lease.until_ms == -inf
    lease.connect(1000, TIMEOUT_MS)
    assert lease.until_ms == 1000 + LEASE_MS
    lease.beat(1500)
    lease.end()
    assert lease.until_ms == -inf
    lease.connect(5000, 600)
    assert lease.until_ms == 5588


def test_an_answer_proves_that_an_earlier_heartbeat_reached_the_leader() -> None:
    lease = connected()
    lease.beat(200)
    assert lease.until_ms == LEASE_MS, "the leader need not have heard of this one"
    lease.beat(400)
    assert lease.until_ms == LEASE_MS
    lease.beat(500)
    assert lease.until_ms == 200 + LEASE_MS
    lease.beat(3000)
    assert lease.until_ms == 500 + LEASE_MS


def test_a_steady_heartbeat_keeps_more_than_half_of_the_time_out() -> None:
    lease = connected()
    interval_ms = TIMEOUT_MS / HEARTBEATS_PER_TIMEOUT
    for number in range(1, 50):
        now_ms = interval_ms * number
        lease.beat(now_ms)
        assert lease.until_ms - now_ms > TIMEOUT_MS / 2


@given(
    gaps_ms=st.lists(st.integers(1, 900), min_size=1, max_size=30),
    half_tick_ms=st.integers(10, TIMEOUT_MS // 4),
    phase_ms=st.integers(0, 300),
)
def test_no_leader_ends_a_session_within_its_lease(gaps_ms: list[int], half_tick_ms: int, phase_ms: int) -> None:
    """The leader asks every half tick, and hears no more from the moment that the last heartbeat is answered."""
    lease = connected()
    sent_ms, signs_ms = 0, [0]
    for gap_ms in gaps_ms:
        sent_ms += gap_ms
        signs_ms.append(sent_ms)
        lease.beat(sent_ms)
        first_ms = phase_ms % half_tick_ms
        asked_ms = sent_ms - (sent_ms - first_ms) % half_tick_ms if sent_ms >= first_ms else 0
        heard_ms = max(sign_ms for sign_ms in signs_ms if sign_ms <= max(asked_ms, 0))
        assert lease.until_ms <= heard_ms + TIMEOUT_MS


def test_a_clock_that_is_slow_does_not_make_a_lease_longer_than_the_time_out() -> None:
    """The leader's clock runs faster by a hundredth, so its time-out is over before ours."""
    sent_ms = 1000.0
    assert (connected(sent_ms).until_ms - sent_ms) * DRIFT < TIMEOUT_MS
