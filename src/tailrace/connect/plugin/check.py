"""Checks of the values of settings. Each returns the reason in Kafka's words, or None."""

from collections.abc import Iterable
from typing import Any

from tailrace.connect.plugin.base import Check


def one_of(*choices: str) -> Check:
    """Accept these texts."""
    return lambda value: None if value in choices else f"String must be one of: {', '.join(choices)}"


def one_of_any_case(*choices: str) -> Check:
    """Accept these texts, in upper or lower case."""
    known = [choice.lower() for choice in choices]
    shown = ", ".join(choice.upper() for choice in choices)
    return lambda value: None if str(value).lower() in known else f"String must be one of (case insensitive): {shown}"


def at_least(least: int) -> Check:
    """Accept numbers that are not smaller."""
    return lambda value: None if value >= least else f"Value must be at least {least}"


def number_of_topic(what: str) -> Check:
    """Accept -1 and positive numbers."""
    reason = f"{what}, or -1 to use the broker's default"
    return lambda value: None if value == -1 or value >= 1 else reason


def not_empty(value: str) -> str | None:
    """Accept texts that are not empty."""
    return None if value else "String must be non-empty"


def no_control_characters(value: str) -> str | None:
    """Accept texts that are not empty and have no control characters."""
    if not value:
        return "String may not be empty"
    found = [str(ord(letter)) for letter in value if ord(letter) < 32 or 127 <= ord(letter) < 160]
    if not found:
        return None
    return f"String may not contain control sequences but had the following ASCII chars: {', '.join(found)}"


def no_repetition(value: Iterable[Any]) -> str | None:
    """Accept lists whose items differ."""
    items = list(value)
    return None if len(set(items)) == len(items) else "Duplicate alias provided."
