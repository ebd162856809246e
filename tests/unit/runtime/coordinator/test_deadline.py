"""Deadlines that move."""

from tailrace.runtime.coordinator.deadline import Deadlines


def test_what_is_due_comes_in_its_order_and_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, at_ms in (("b", 20), ("a", 10), ("c", 30), ("d", 20)):
        deadlines.set(key, at_ms)
    assert deadlines.next_ms() == 10
    assert deadlines.take_due(9) == []
    assert deadlines.take_due(20) == ["a", "b", "d"]
    assert deadlines.take_due(20) == []
    assert deadlines.take_due(30) == ["c"]
    assert (deadlines.next_ms(), len(deadlines)) == (None, 0)


def test_a_deadline_that_is_moved_or_cancelled() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("later", 10)
    deadlines.set("later", 50)
    deadlines.set("sooner", 50)
    deadlines.set("sooner", 10)
    deadlines.set("never", 10)
    deadlines.cancel("never")
    assert deadlines.take_due(49) == ["sooner"]
    assert deadlines.take_due(50) == ["later"]
    deadlines.set("never", 60)
    deadlines.set("sooner", 70)
    deadlines.set("sooner", 65)
    assert deadlines.take_due(100) == ["never", "sooner"]
    assert deadlines.take_due(100) == []


def test_a_deadline_that_is_prolonged_for_ever_takes_one_place() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for now_ms in range(100_000):
        deadlines.set("session", now_ms + 45_000)
        assert deadlines.take_due(now_ms) == []
    assert len(deadlines._heap) == 1


def test_what_deadlines_leave_behind_that_come_nearer_or_are_cancelled_is_bounded() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for number in range(10_000):
        deadlines.set(0, 1_000_000 - number)
        deadlines.set(number + 1, 1_000_000)
        deadlines.cancel(number + 1)
    deadlines.set(-1, 1_000_000)
    assert len(deadlines._heap) < 200
    assert deadlines.take_due(990_000) == []
    assert deadlines.take_due(1_000_000) == [0, -1]
