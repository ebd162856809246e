"""Comparison of two schemas: which changes keep a reader from reading what a writer wrote.

The rules and the names of the changes are those of Confluent's registry, which compares schemas part by part instead
of the sets of values that they allow. Only changes that break a reader are collected.

A comparison asks for others by yielding pairs of nodes, and a loop runs them on a list instead of the stack: chains of
references can be as long as a schema. A pair met again while it is being compared is taken as compatible. Where that
was assumed of a pair that turned out not to be, all is compared once more with that knowledge, until nothing changes.
"""

from collections.abc import Generator
from dataclasses import replace

from tailrace.schema.json_schema.change import Change, Changes, Comparing, Step, between
from tailrace.schema.json_schema.container import array_changes, object_changes
from tailrace.schema.json_schema.matching import matching_size
from tailrace.schema.json_schema.node import (
    AnyValue,
    ArrayValue,
    Combination,
    ConstValue,
    EnumValue,
    Negation,
    Node,
    NoValue,
    NumberValue,
    ObjectValue,
    StringValue,
    resolved,
)
from tailrace.schema.json_schema.scalar import const_changes, enum_changes, number_changes, string_changes
from tailrace.schema.language import CompatibilityPolicy

CHANGES_MAX = 1_000
"""Changes that are collected. Definitions that refer to each other can multiply one change without end."""

COMPARISONS_MAX = 100_000
"""Comparisons of two nodes, or of a pattern and the name of a property, beyond those that grow with the schemas' size,
a second or two of work. Each alternative of a `oneOf` meets each of the other schema's, and each property each pattern,
so their number can grow with the square of the size."""

Key = tuple[int, int]


class TooManyComparisons(Exception):
    """Two schemas have more alternatives than can be compared with each other."""


def compare(writer: Node, reader: Node, policy: CompatibilityPolicy, size: int) -> Changes:
    """Return the changes that keep the reader from reading what the writer wrote.

    `size` is about the number of nodes of both.
    """
    comparison = _Comparison(policy, COMPARISONS_MAX + size)
    try:
        return comparison.run(writer, reader)
    except TooManyComparisons:
        return [Change("COMBINED_TYPE_SUBSCHEMAS_CHANGED")]


class _Comparison:
    def __init__(self, policy: CompatibilityPolicy, comparisons_max: int) -> None:
        self._policy = policy
        self._left = comparisons_max
        self._broken: dict[Key, Changes] = {}
        """Pairs that the last round found incompatible."""

    def run(self, writer: Node, reader: Node) -> Changes:
        while True:
            known, has_assumed = self._round(resolved(writer), resolved(reader))
            broken = {key: changes for key, changes in known.items() if changes}
            if not has_assumed or broken.keys() == self._broken.keys():
                found = known[id(resolved(writer)), id(resolved(reader))]
                return [change for change in found if not change.is_repeated] or found
            self._broken = broken

    def _round(self, writer: Node, reader: Node) -> tuple[dict[Key, Changes], bool]:
        """Compare a pair and all below it; return what was found, and whether an open pair was taken as compatible."""
        known: dict[Key, Changes] = {}
        has_assumed = False
        first = (id(writer), id(reader))
        running: dict[Key, Comparing] = {first: _changes(writer, reader)}
        answer: Changes | None = None
        while running:
            key, comparing = next(reversed(running.items()))
            try:
                step = next(comparing) if answer is None else comparing.send(answer)
            except StopIteration as done:
                changes = [change for change in done.value if not change.is_allowed(self._policy)]
                answer = known[key] = changes[:CHANGES_MAX]
                del running[key]
                continue
            answer = None
            self._count(step if isinstance(step, int) else 1)
            if isinstance(step, int):
                answer = []
                continue
            writer, reader = resolved(step[0]), resolved(step[1])
            key = (id(writer), id(reader))
            if key in known:
                answer = known[key]
            elif key in running:
                has_assumed = has_assumed or key not in self._broken
                answer = [replace(change, is_repeated=True) for change in self._broken.get(key, ())]
            else:
                running[key] = _changes(writer, reader)
        return known, has_assumed

    def _count(self, comparisons: int) -> None:
        self._left -= comparisons
        if self._left < 0:
            raise TooManyComparisons


def _changes(writer: Node, reader: Node) -> Comparing:
    if isinstance(reader, Combination) and not isinstance(writer, Combination):
        is_read = yield from _is_one_alternative(writer, reader)
    elif isinstance(writer, Combination) and not isinstance(reader, Combination):
        is_read = yield from _has_one_part(writer, reader)
    else:
        is_read = False
    if is_read:
        return []
    if type(writer) is not type(reader):
        is_harmless = isinstance(writer, NoValue) or isinstance(reader, AnyValue)
        are_bytes = writer.connect_type == reader.connect_type == "bytes"
        return [] if is_harmless or are_bytes else [Change("TYPE_CHANGED", None, writer, reader)]
    return (yield from _changes_of_one_type(writer, reader))


def _changes_of_one_type(writer: Node, reader: Node) -> Comparing:
    match writer, reader:
        case ObjectValue(), ObjectValue():
            return (yield from object_changes(writer, reader))
        case ArrayValue(), ArrayValue():
            return (yield from array_changes(writer, reader))
        case Combination(), Combination():
            return (yield from _combination_changes(writer, reader))
        case Negation(), Negation():
            return (yield from _negation_changes(writer, reader))
        case StringValue(), StringValue():
            return string_changes(writer, reader)
        case NumberValue(), NumberValue():
            return number_changes(writer, reader)
        case EnumValue(), EnumValue():
            return enum_changes(writer, reader)
        case ConstValue(), ConstValue():
            return const_changes(writer, reader)
    return []


def _negation_changes(writer: Negation, reader: Negation) -> Comparing:
    """A reader that excludes less reads more, so the two change places."""
    changes = yield from between(reader.inner, writer.inner)
    return [Change("NOT_TYPE_EXTENDED", ("not", None))] if changes else []


def _is_one_alternative(writer: Node, reader: Combination) -> Generator[Step, Changes, bool]:
    """Tell whether one of the reader's alternatives reads all that the writer wrote."""
    if len(reader.parts) > 1 and reader.criterion == "allOf":
        return False
    for part in reader.parts:
        if not (yield from between(writer, part)):
            return True
    return False


def _has_one_part(writer: Combination, reader: Node) -> Generator[Step, Changes, bool]:
    """Tell whether the reader reads all that one of several simultaneous constraints of the writer lets through."""
    if len(writer.parts) > 1 and writer.criterion != "allOf":
        return False
    for part in writer.parts:
        if not (yield from between(part, reader)):
            return True
    return False


def _combination_changes(writer: Combination, reader: Combination) -> Comparing:
    if not _criterion_may_follow(writer, reader):
        return [Change("COMBINED_TYPE_CHANGED", None, writer.criterion, reader.criterion)]
    before = {part.key(): part for part in writer.parts}
    after = {part.key(): part for part in reader.parts}
    changes: Changes = []
    if len(before) < len(after) and reader.criterion == "allOf":
        changes.append(Change("PRODUCT_TYPE_EXTENDED", None, len(before), len(after)))
    if len(before) > len(after) and writer.criterion != "allOf":
        changes.append(Change("SUM_TYPE_NARROWED", None, len(before), len(after)))
    if (yield from _matched(before, after)) < min(len(before), len(after)):
        changes.append(Change("COMBINED_TYPE_SUBSCHEMAS_CHANGED", None, writer.criterion))
    return changes


def _criterion_may_follow(writer: Combination, reader: Combination) -> bool:
    if reader.criterion in (writer.criterion, "anyOf"):
        return True
    is_single = len(writer.parts) == 1, len(reader.parts) == 1
    return (
        is_single == (True, True)
        or (is_single[0] and reader.criterion == "oneOf")
        or (is_single[1] and writer.criterion == "allOf")
    )


def _matched(before: dict[str, Node], after: dict[str, Node]) -> Generator[Step, Changes, int]:
    """Return how many parts of one combination find a compatible part of their own in the other.

    Parts that did not change are matched first: a schema with a thousand alternatives then costs a thousand
    comparisons, and not a million.
    """
    left, right = list(before.values()), list(after.values())
    position = {key: index for index, key in enumerate(after)}
    unchanged = {}
    for index, (key, part) in enumerate(before.items()):
        if key in after and not (yield from between(part, after[key])):
            unchanged[index] = position[key]

    def partners(index: int) -> Generator[Step, Changes, list[int]]:
        found = []
        for other, part in enumerate(right):
            if not (yield from between(left[index], part)):
                found.append(other)
        return found

    return (yield from matching_size(unchanged, len(left), len(right), partners))
