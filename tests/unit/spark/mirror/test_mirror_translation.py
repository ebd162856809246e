"""Translated offsets never skip a record, whatever the logs look like and however few spans are known."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.mirror.translation import Span, Translation, join_spans


@st.composite
def copies(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Pairs of source and target offsets of copied records: both increase, with gaps at random places."""
    source = target = 0
    pairs = []
    for source_gap, target_gap in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=60)):
        source += source_gap
        target += target_gap
        pairs.append((source, target))
        source, target = source + 1, target + 1
    return pairs


def spans_of(pairs: list[tuple[int, int]], cuts: set[int]) -> list[Span]:
    """The spans of copied records, which are also cut at these places, as transactions do."""
    spans: list[Span] = []
    for index, pair in enumerate(pairs):
        single = Span(*pair, 1)
        if spans and index not in cuts and single.continues(spans[-1]):
            spans[-1] = join_spans([spans[-1], single])[0]
        else:
            spans.append(single)
    return spans


@given(copies(), st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(4, 100))
def test_no_record_is_skipped(pairs: list[tuple[int, int]], cuts: set[int], lost: set[int], kept_max: int) -> None:
    translation = Translation(kept_max)
    for index, span in enumerate(spans_of(pairs, cuts)):
        if index not in lost:
            translation.add(span)
    end = max((source for source, _ in pairs), default=0) + 3
    for offset in range(end):
        found = translation.translate(offset)
        if found is not None:
            skipped = [target for source, target in pairs if source >= offset and target < found]
            assert skipped == []


@given(copies(), st.sets(st.integers(0, 60)))
def test_no_record_is_repeated_where_all_spans_are_known(pairs: list[tuple[int, int]], cuts: set[int]) -> None:
    translation = Translation()
    for span in spans_of(pairs, cuts):
        translation.add(span)
    for offset in range(pairs[0][0] if pairs else 0, max((source for source, _ in pairs), default=0) + 3):
        found = translation.translate(offset)
        assert found is None or [target for source, target in pairs if source < offset and target >= found] == []


@given(copies())
def test_a_greater_offset_is_never_translated_to_a_smaller_one(pairs: list[tuple[int, int]]) -> None:
    translation = Translation(4)
    for span in spans_of(pairs, set()):
        translation.add(span)
    found = [translation.translate(offset) for offset in range(200)]
    known = [offset for offset in found if offset is not None]
    assert known == sorted(known)


def test_nothing_is_known_before_the_first_span() -> None:
    translation = Translation()
    assert translation.translate(7) is None
    translation.add(Span(10, 100, 5))
    assert [translation.translate(offset) for offset in (9, 10, 12, 15, 40)] == [None, 100, 102, 105, 105]


def test_spans_are_thinned_and_the_first_stays() -> None:
    translation = Translation(kept_max=10)
    for number in range(1000):
        translation.add(Span(number * 2, number * 3, 1))
    assert len(translation) <= 10
    assert translation.translate(0) == 0
    assert translation.translate(2 * 999) == 3 * 999


def test_a_topic_that_was_created_anew_starts_over() -> None:
    translation = Translation()
    translation.add(Span(0, 0, 50))
    translation.add(Span(0, 51, 10))
    assert translation.translate(5) == 56
