"""The objects of the next batch: by time with a look-back, and by name."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.connector.s3.position import Found, Order, Position, admit


def found(name: str, at_ms: int, tag: str | None = None) -> Found:
    return Found(name, at_ms, 1, tag)


def names(position: Position | None) -> list[str]:
    return [] if position is None else [each.name for each in position.objects]


def test_objects_are_read_in_order_of_time_and_once() -> None:
    listing = [found("b", 1), found("a", 2), found("c", 1)]
    first = admit(Position(), listing, Order.MODIFIED, look_back_ms=10, objects_max=2)
    assert names(first) == ["b", "c"]
    assert first is not None
    second = admit(first, listing, Order.MODIFIED, look_back_ms=10, objects_max=2)
    assert names(second) == ["a"]
    assert second is not None
    assert admit(second, listing, Order.MODIFIED, look_back_ms=10, objects_max=2) is None
    assert second.number == 2


def test_an_object_may_come_as_late_as_the_look_back_allows() -> None:
    first = admit(Position(), [found("a", 100)], Order.MODIFIED, look_back_ms=50, objects_max=9)
    assert first is not None
    listing = [found("a", 100), found("late", 50), found("too-late", 49)]
    assert names(admit(first, listing, Order.MODIFIED, look_back_ms=50, objects_max=9)) == ["late"]


def test_an_object_that_is_written_again_is_read_again() -> None:
    first = admit(Position(), [found("a", 100, "one")], Order.MODIFIED, look_back_ms=50, objects_max=9)
    assert first is not None
    assert names(admit(first, [found("a", 100, "two")], Order.MODIFIED, look_back_ms=50, objects_max=9)) == ["a"]


def test_by_name_only_later_names_are_new() -> None:
    first = admit(Position(), [found("2", 1), found("1", 9)], Order.NAME, look_back_ms=0, objects_max=9)
    assert names(first) == ["1", "2"]
    assert first is not None
    assert names(admit(first, [found("15", 99), found("3", 0)], Order.NAME, look_back_ms=0, objects_max=9)) == ["3"]


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 20)), max_size=30),
    st.integers(1, 5),
)
def test_every_object_that_is_not_too_late_is_read_exactly_once(
    arrivals: list[tuple[int, int]], objects_max: int
) -> None:
    """Objects appear up to 20 ms after the time that they show, in batches of any size, through JSON and back."""
    objects = [(at + delay, found(str(index), at)) for index, (at, delay) in enumerate(arrivals)]
    position, read = Position(), []
    for now_ms in [*range(0, 125, 7), *[200] * 30]:
        listing = [each for visible_ms, each in objects if visible_ms <= now_ms]
        while (after := admit(position, listing, Order.MODIFIED, look_back_ms=20, objects_max=objects_max)) is not None:
            position = Position.from_json(json.loads(json.dumps(after.to_json())))
            assert position == after
            read += names(position)
    assert sorted(read) == sorted(each.name for _, each in objects)
