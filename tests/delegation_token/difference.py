"""The answers in which a broker differs from Apache Kafka on purpose. `docs/SECURITY.md` has the reasons too."""

from collections.abc import Callable
from typing import NamedTuple

_NOTHING = "no token, times (-1, -1, -1), 0 bytes"
_OF_GROUP = "for a group of Group:owner asked for by User:admin"


class Difference(NamedTuple):
    """What is different and why, and the change of an answer of Apache Kafka with a title."""

    reason: str
    change: Callable[[str, str], str]


def _refuse_group(title: str, answer: str) -> str:
    if title == "Create as admin: for a group":
        return f"INVALID_PRINCIPAL_TYPE, of Group:owner, asked for by User:admin, {_NOTHING}"
    error, colon, described = answer.partition(": ")
    tokens = [token for token in described.split("; ") if token != _OF_GROUP]
    return f"{error}{colon}{'; '.join(tokens) or 'nothing'}" if _OF_GROUP in described else answer


def _refuse_untyped(title: str, answer: str) -> str:
    if title == "Create as owner: an owner without a type":
        return f"DELEGATION_TOKEN_AUTHORIZATION_FAILED, of :owner, asked for by User:owner, {_NOTHING}"
    return answer


DIFFERENCES = (
    Difference(
        "The owner of a delegation token is a user. Kafka creates a token for a group, too, whose holder logs in as "
        "the user of that name.",
        _refuse_group,
    ),
    Difference(
        "An owner without a type is refused like one of another type; Kafka's broker fails with an unknown error.",
        _refuse_untyped,
    ),
)


def expected(title: str, answer: str) -> str:
    """Return an answer, which Apache Kafka has given, with the differences."""
    for difference in DIFFERENCES:
        answer = difference.change(title, answer)
    return answer
