"""What came of a client's attempt: `login.md` says it in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from tests.clients.security.access import Access

DEADLINE_S = 60.0
"""How long a client tries, on a busy machine too."""


class Outcome(NamedTuple):
    """The values that the client read in a group."""

    values: list[str]


class Refused(Exception):
    """A client that was not let in, with what it tells its user."""


Use = Callable[[Access, str, int, int], Outcome]
"""Write so many records to a topic, with a pause after each, and read them; raise `Refused` if not let in."""


def print_outcome(attempt: Callable[[], Outcome]) -> None:
    """Print what came of an attempt, as a program does."""
    try:
        print(json.dumps({"values": attempt().values}))
    except Refused as refused:
        print(json.dumps({"refused": str(refused)}))
