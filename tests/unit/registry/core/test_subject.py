"""Subjects and contexts."""

import pytest

from tailrace.registry.core.subject import Subject, is_valid, normalize, normalize_context, qualify


@pytest.mark.parametrize(
    ("text", "context", "name"),
    [
        ("orders-value", ".", "orders-value"),
        ("", ".", ""),
        (":.eu:orders-value", ".eu", "orders-value"),
        (":.eu:", ".eu", ""),
        (":.eu", ".eu", ""),
        (":.:orders", ".", "orders"),
        (":*:orders", "*", "orders"),
        (":.eu:a:b", ".eu", "a:b"),
        (":eu:orders", ".", ":eu:orders"),
    ],
)
def test_a_subject_has_a_context_and_a_name(text: str, context: str, name: str) -> None:
    assert Subject.parse(text) == Subject(context, name)


def test_the_default_context_is_not_written() -> None:
    assert normalize(":.:orders") == "orders"
    assert normalize(":.eu:orders") == ":.eu:orders"
    assert normalize(":.eu") == ":.eu:"


@pytest.mark.parametrize("written", ["eu", ".eu", ":.eu:", ":eu:", ":.eu"])
def test_a_context_is_named_with_or_without_its_marks(written: str) -> None:
    assert normalize_context(written) == ":.eu:"


def test_a_context_has_no_colon_inside() -> None:
    with pytest.raises(ValueError, match="contains a colon"):
        normalize_context("a:b")


def test_a_reference_is_in_the_context_of_the_referring_subject() -> None:
    assert qualify("b", ":.eu:a") == ":.eu:b"
    assert qualify(":.us:b", ":.eu:a") == ":.us:b"
    assert qualify("b", "a") == "b"


@pytest.mark.parametrize(
    ("subject", "as_subject", "as_scope"),
    [
        ("orders", True, True),
        ("a/b c%", True, True),
        ("__GLOBAL", False, False),
        (":.eu:__EMPTY", False, False),
        (":.__GLOBAL:", False, True),
        ("a\nb", False, False),
        ("a\x85b", False, False),
        ("", True, True),
    ],
)
def test_which_subjects_are_valid(subject: str, as_subject: bool, as_scope: bool) -> None:
    assert is_valid(subject) is as_subject
    assert is_valid(subject, is_scope=True) is as_scope
