"""Memory for requests is bounded, shared in order, and never locks everybody out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tailrace.server.budget import Backlog, Budget, Claim


class Frame:
    """A large frame on its way in: grows until it is whole, then ends."""

    def __init__(self, budget: Budget) -> None:
        self.grants = 0
        self.claim = Claim(budget, self._granted)

    def _granted(self) -> None:
        self.grants += 1


def test_a_claim_within_the_limit_grows_at_once() -> None:
    budget = Budget(100)
    claim = Frame(budget).claim
    claim.take(10)
    assert claim.ask(90)
    assert budget.in_flight_bytes == 100
    assert budget.is_full
    claim.end()
    assert budget.in_flight_bytes == 0


def test_one_claim_at_a_time_goes_over_the_limit_and_the_others_wait_in_order() -> None:
    budget = Budget(100)
    first, second, third = (Frame(budget) for _ in range(3))
    for frame in (first, second, third):
        frame.claim.take(30)
    assert first.claim.ask(40), "somebody must be able to finish"
    assert first.claim.ask(500)
    assert not second.claim.ask(10), "even what would be small waits its turn"
    assert not third.claim.ask(5)
    assert not second.claim.ask(10), "asking again changes nothing"
    assert budget.waiting_count == 2
    first.claim.end()
    assert (second.grants, third.grants) == (1, 1)
    assert budget.in_flight_bytes == 30 + 10 + 30 + 5


def test_the_next_one_goes_over_the_limit_when_the_first_has_ended() -> None:
    budget = Budget(100)
    first, second, third = (Frame(budget) for _ in range(3))
    for frame in (first, second, third):
        frame.claim.take(40)
    assert first.claim.ask(100)
    assert not second.claim.ask(100)
    assert not third.claim.ask(100)
    first.claim.end()
    assert (second.grants, third.grants) == (1, 0)
    second.claim.end()
    assert third.grants == 1


def test_one_who_leaves_while_waiting_is_never_called() -> None:
    budget = Budget(100)
    first, second, third = (Frame(budget) for _ in range(3))
    first.claim.take(100)
    assert first.claim.ask(1)
    assert not second.claim.ask(50)
    assert not third.claim.ask(50)
    second.claim.end()
    first.claim.end()
    assert (second.grants, third.grants) == (0, 1)


def test_small_requests_are_taken_however_full_it_is() -> None:
    budget = Budget(100)
    claim = Frame(budget).claim
    claim.take(200)
    budget.take(10)
    assert budget.is_full
    budget.give_back(10)
    claim.end()
    assert not budget.is_full


def test_memory_given_back_by_small_requests_wakes_those_who_wait() -> None:
    budget = Budget(100)
    first, second = Frame(budget), Frame(budget)
    budget.take(95)
    assert first.claim.ask(10)
    assert not second.claim.ask(50)
    budget.give_back(95)
    assert second.grants == 1


def test_giving_back_more_than_was_taken_is_a_bug() -> None:
    with pytest.raises(Exception, match="released only after"):
        Budget(100).give_back(1)


LIMIT = 1000
FRAME_MAX = 400
READ_MAX = 50


class AnyInterleaving(RuleBasedStateMachine):
    """Frames that begin, grow, become whole and are served or lost, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(LIMIT)
        self.frames: set[_Growing] = set()
        self.small: list[int] = []

    growing = Bundle("growing")

    @rule(target=growing, first=st.integers(1, READ_MAX), length=st.integers(READ_MAX, FRAME_MAX))
    def begin(self, first: int, length: int) -> "_Growing":
        frame = _Growing(self.budget, first, length)
        self.frames.add(frame)
        return frame

    @rule(frame=growing)
    def grow(self, frame: "_Growing") -> None:
        frame.grow()

    @rule(frame=consumes(growing))
    def lose(self, frame: "_Growing") -> None:
        self.frames.discard(frame)
        frame.claim.end()

    @rule(size=st.integers(1, READ_MAX))
    def small_request(self, size: int) -> None:
        self.budget.take(size)
        self.small.append(size)

    @rule()
    def serve_small_requests(self) -> None:
        while self.small:
            self.budget.give_back(self.small.pop())

    @invariant()
    def the_bound_holds(self) -> None:
        without_asking = sum(self.small) + sum(frame.first for frame in self.frames)
        assert self.budget.in_flight_bytes <= LIMIT + FRAME_MAX + without_asking

    @invariant()
    def all_bytes_are_accounted_for(self) -> None:
        assert self.budget.in_flight_bytes == sum(self.small) + sum(frame.held for frame in self.frames)

    @invariant()
    def somebody_can_always_go_on(self) -> None:
        assert not self.frames or any(not frame.waits for frame in self.frames) or self.budget.waiting_count == 0

    def teardown(self) -> None:
        """Whatever happened: if nobody gives up, all frames become whole and all memory comes back."""
        self.serve_small_requests()
        while self.frames:
            whole = {frame for frame in self.frames if frame.held >= frame.length}
            able = {frame for frame in self.frames if not frame.waits}
            assert able, "everybody waits"
            for frame in whole:
                self.frames.discard(frame)
                frame.claim.end()
            for frame in able - whole:
                frame.grow()
        assert self.budget.in_flight_bytes == 0
        assert self.budget.waiting_count == 0


class _Growing:
    """A frame of known length whose memory doubles."""

    def __init__(self, budget: Budget, first: int, length: int) -> None:
        self.first = first
        self.length = length
        self.held = first
        self.waits = False
        self.wanted = 0
        self.claim = Claim(budget, self._granted)
        self.claim.take(first)

    def grow(self) -> None:
        if self.waits or self.held >= self.length:
            return
        self.wanted = min(self.held, self.length - self.held)
        if self.claim.ask(self.wanted):
            self.held += self.wanted
        else:
            self.waits = True

    def _granted(self) -> None:
        assert self.waits
        self.waits = False
        self.held += self.wanted


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(deadline=None)


@given(st.integers(0, 300))
def test_the_backlog_never_leaves_less_than_no_room(size: int) -> None:
    backlog = Backlog(100)
    backlog.size_bytes += size
    assert backlog.room_bytes == max(0, 100 - size)
