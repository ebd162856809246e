"""Names of entities in config records."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.machines.controller.entity import entity_name, parse_entity_name

PARTS = st.one_of(
    st.none(), st.text(min_size=1, max_size=12), st.sampled_from([".", "..", "/", "<default>", "%2F", "a b", "é", "*"])
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(parts=st.lists(PARTS, min_size=1, max_size=2))
def test_the_parts_of_a_name_come_back(parts: list[str | None]) -> None:
    assert parse_entity_name(entity_name(*parts)) == tuple(parts)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(first=st.lists(PARTS, min_size=1, max_size=2), second=st.lists(PARTS, min_size=1, max_size=2))
def test_no_two_entities_share_a_name(first: list[str | None], second: list[str | None]) -> None:
    assert (entity_name(*first) == entity_name(*second)) == (first == second)


def test_a_user_can_be_called_as_the_default_is_written() -> None:
    assert entity_name(None) == "<default>"
    assert entity_name("<default>") == "%3Cdefault%3E"
