"""What a producer was told of its records, beside what is in the log."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NO_OFFSET = -1
SHOWN_COUNT_MAX = 10


@dataclass
class Ledger:
    """The outcome of each record, by its number."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    """The offsets that brokers gave, `NO_OFFSET` if the client was told none."""
    failed: dict[int, str] = field(default_factory=dict)

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove the records that do not count."""
        for number in numbers:
            self.acknowledged.pop(number, None)
            self.failed.pop(number, None)


class Verdict(NamedTuple):
    """What is wrong, by kind."""

    lost: list[int]
    """Acknowledged, and not in the log."""
    twice: list[int]
    out_of_order: list[int]
    """Before a record in the log that was sent earlier."""
    misplaced: list[int]
    """Acknowledged with an offset at which the log has another record, or none."""
    strange: list[int]
    """In the log, and not sent, or of a transaction that did not commit."""
    silent: list[int]
    """Without an outcome."""

    @property
    def wrong(self) -> str | None:
        """The kinds that are not empty as text; None if all are."""
        return "; ".join(f"{kind}: {shown(numbers)}" for kind, numbers in self.by_kind.items()) or None

    @property
    def by_kind(self) -> dict[str, list[int]]:
        """The kinds that are not empty."""
        return {kind.replace("_", " "): numbers for kind, numbers in self._asdict().items() if numbers}


def shown(numbers: Sequence[int]) -> str:
    """Return the first numbers as text, and how many there are."""
    listed = ", ".join(map(str, numbers[:SHOWN_COUNT_MAX]))
    return listed if len(numbers) <= SHOWN_COUNT_MAX else f"{listed}, … ({len(numbers)})"


def judge(
    sent: Sequence[int], ledger: Ledger, log: Sequence[tuple[int, int]], *, failed_may_be_written: bool = True
) -> Verdict:
    """Compare the outcomes of the records that were sent, in their order, with the log's offsets and records."""
    found = [number for _, number in log]
    at = dict(log)
    allowed = set(sent) if failed_may_be_written else set(ledger.acknowledged)
    return Verdict(
        lost=sorted(set(ledger.acknowledged) - set(found)),
        twice=[number for number, count in Counter(found).items() if count > 1],
        out_of_order=_out_of_order(found),
        misplaced=[
            number for number, offset in ledger.acknowledged.items() if offset >= 0 and at.get(offset) != number
        ],
        strange=sorted(set(found) - allowed),
        silent=sorted(set(sent) - set(ledger.acknowledged) - set(ledger.failed)),
    )


def _out_of_order(found: Sequence[int]) -> list[int]:
    highest, wrong = -1, []
    for number in found:
        if number < highest:
            wrong.append(number)
        highest = max(highest, number)
    return wrong
