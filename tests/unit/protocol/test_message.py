"""Declarations, and the plain data classes that come of them."""

import uuid

import pytest

from tailrace.protocol.message import Message, message, parse_versions, wire
from tailrace.protocol.primitive import INT16, INT32, INT64, STRING, UUID, ZERO_UUID, array


class Part(Message):
    """A struct."""

    number: int = wire(INT32, "0+", default=7)


@message(versions="0-3", flexible="2+")
class Whole(Message):
    """A message with one field of each kind of default."""

    name: str = wire(STRING, "0+")
    note: str | None = wire(STRING, "0+", nullable="0+", default=None)
    id: uuid.UUID = wire(UUID, "0+")
    parts: list[Part] = wire(array(Part), "0+")
    part: Part = wire(Part, "0+")
    hint: Part | None = wire(Part, "2+", tag=0, tagged="2+")


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3+", [3, 32767], [2]), ("1-5", [1, 5], [0, 6]), ("4", [4], [3, 5]), ("none", [], [0, 1])],
)
def test_kafkas_notation_of_versions(text: str, inside: list[int], outside: list[int]) -> None:
    versions = parse_versions(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_what_is_not_given_has_its_default() -> None:
    whole = Whole(name="n")
    assert (whole.name, whole.note, whole.id, whole.parts, whole.part, whole.hint) == (
        "n",
        None,
        ZERO_UUID,
        [],
        Part(number=7),
        None,
    )


def test_defaults_that_can_be_changed_are_not_shared() -> None:
    first, second = Whole(), Whole()
    first.parts.append(Part())
    first.part.number = 1
    assert second == Whole()


def test_messages_are_equal_by_value_within_one_class() -> None:
    assert Part(number=1) == Part(number=1)
    assert Part(number=1) != Part(number=2)
    assert Part() != Whole()
    assert Part() != 7


def test_a_message_shows_its_fields() -> None:
    assert repr(Part(number=3)) == "Part(number=3)"


def test_a_message_takes_its_fields_and_no_others() -> None:
    for _ in range(2):  # the first construction compiles the constructor, the second one uses it
        with pytest.raises(TypeError):
            Part(colour=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Part().colour = 1  # type: ignore[attr-defined]


def test_fields_are_sorted_by_where_a_version_has_them() -> None:
    class Moving(Message):
        """A struct whose fields come and go."""

        old: int = wire(INT16, "0-1")
        second: int = wire(INT64, "2+", tag=1, tagged="2+")
        first: int = wire(INT64, "1+", tag=0, tagged="2+")

    schema = Moving.SCHEMA

    def names(version: int) -> list[list[str]]:
        kinds = schema.untagged_fields(version), schema.tagged_fields(version), schema.absent_fields(version)
        return [[field.name for field in fields] for fields in kinds]

    assert names(0) == [["old"], [], ["second", "first"]]
    assert names(1) == [["old", "first"], [], ["second"]]
    assert names(2) == [[], ["first", "second"], ["old"]]
