"""Checks of option values, each with a description of what it accepts for errors and docs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PORT_MAX = 65535
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """A condition on a value, with a description of the values that it accepts.

    `refusal` may return a better error for particular values, or None for the general one.
    """

    accepts: str
    holds: Callable[[T], bool]
    refusal: Callable[[T], str | None] = lambda _: None

    def complaint(self, value: T) -> str | None:
        """Return why `value` is refused, or None if it is valid."""
        if self.holds(value):
            return None
        return self.refusal(value) or f"must be {self.accepts}"


def at_least(minimum: float) -> Check[float]:
    """Accept numbers from `minimum` up."""
    return Check(f"at least {minimum}", lambda value: value >= minimum)


def between(minimum: float, maximum: float) -> Check[float]:
    """Accept numbers from `minimum` to `maximum`, both included."""
    return Check(f"between {minimum} and {maximum}", lambda value: minimum <= value <= maximum)


def unlimited_or_at_least(minimum: float) -> Check[float]:
    """Accept -1, which means no limit, and numbers from `minimum` up."""
    return Check(f"-1 (no limit) or at least {minimum}", lambda value: value == -1 or value >= minimum)


def one_of(*choices: str) -> Check[str]:
    """Accept exactly the words in `choices`."""
    return Check(f"one of {', '.join(choices)}", lambda value: value in choices)


def only(choice: str, reason: str) -> Check[str]:
    """Accept the single word that is supported, and give the reason for every other."""
    return Check(choice, lambda value: value == choice, lambda _: f"{reason}; it must be {choice}")


PEM_ONLY = only("PEM", "keys and certificates must be PEM files; openssl pkcs12 converts a Java keystore")


def non_empty_list() -> Check[tuple[str, ...]]:
    """Accept lists with at least one item, without empty or repeated items."""
    return Check(
        "a list of different, non-empty items",
        lambda items: len(items) > 0 and all(items) and len(set(items)) == len(items),
    )


def host_and_port() -> Check[str]:
    """Accept `HOST:PORT`, with brackets around an IPv6 address; an empty host means every interface."""
    return Check("HOST:PORT", _is_address)


def _is_address(text: str) -> bool:
    match = _ADDRESS.fullmatch(text)
    return match is not None and int(match["port"]) <= PORT_MAX
