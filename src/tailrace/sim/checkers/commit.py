"""A check of commits: a group commits no more than what its members have handed to the application.

A member starts at the committed offset, or at the start of the log. So when a coordinator applies a commit, manual or
automatic, each record below it was handed to some member before, in a poll that had ended: an automatic commit has the
records of earlier polls. Records that an administrator may have deleted do not count.
"""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.order import partition_orders
from tailrace.sim.history import History, Operation

_Place = tuple[str, str]
"""A group, and a partition."""


def find_commits_ahead(history: History) -> Iterator[Finding]:
    """Find the first commit in each partition of a group that passes a record which no member had got."""
    handed = _handed(history)
    orders = {order.name: order for order in partition_orders(history)}
    offsets = {name: [each for each in order.offsets if each >= order.deleted_end] for name, order in orders.items()}
    positions: dict[_Place, int] = {}
    broken: set[_Place] = set()
    for commit in history.of("applied"):
        place = (commit.asked["group"], commit.asked["partition"])
        if place in broken or place[1] not in offsets or place[0] not in handed:
            continue
        known, got = offsets[place[1]], handed[place[0]].get(place[1], {})
        index = positions.get(place, 0)
        while index < len(known) and known[index] < commit.asked["offset"]:
            if got.get(known[index], commit.begun) >= commit.begun:
                text = f"{commit.process} applied offset {commit.asked['offset']} of {place[1]}, but no member had got"
                yield Finding("commit-ahead", place[0], f"{text} the record at {known[index]}", (commit.begun,))
                broken.add(place)
                break
            index += 1
        positions[place] = index


def _handed(history: History) -> dict[str, dict[str, dict[int, int]]]:
    """Return when each offset was first handed to a member, by group and partition: where that poll ended."""
    groups = {change.process: change.asked["group"] for change in history.of("assign") if "group" in change.asked}
    found: dict[str, dict[str, dict[int, int]]] = {group: {} for group in groups.values()}
    for poll in history.of("poll"):
        if poll.process in groups and poll.is_ok:
            _note(found[groups[poll.process]], poll)
    return found


def _note(handed: dict[str, dict[int, int]], poll: Operation) -> None:
    ended = poll.ended or poll.begun
    for record in poll.records:
        offsets = handed.setdefault(record.partition, {})
        # Polls come in the order in which they began. Another member's, which began later, may have ended before.
        offsets[record.offset] = min(offsets.get(record.offset, ended), ended)
