"""The transactions of a history: their operations, and what is certain about their outcome."""

from dataclasses import dataclass, field
from functools import lru_cache

from tailrace.sim.history import FAIL, INFO, History, Operation


@dataclass(eq=False)
class Transaction:
    """One transaction of one producer. A producer that dies leaves a transaction that must not be committed."""

    name: str
    transactional_id: str
    process: str
    begun: int
    sends: list[Operation] = field(default_factory=list)
    offsets: list[Operation] = field(default_factory=list)
    ends: list[Operation] = field(default_factory=list)
    previous: "Transaction | None" = None
    """The previous transaction with the same transactional id."""

    @property
    def commits(self) -> list[Operation]:
        return [end for end in self.ends if end.asked["commit"]]

    @property
    def is_committed(self) -> bool:
        return any(commit.is_ok for commit in self.commits)

    @property
    def is_aborted(self) -> bool:
        """Whether it is certainly not committed: no commit was requested, or all were rejected."""
        return all(commit.outcome == FAIL for commit in self.commits)

    @property
    def asked_at(self) -> int | None:
        """When the commit was first requested."""
        return min((commit.begun for commit in self.commits if commit.outcome != FAIL), default=None)

    @property
    def is_doubtful(self) -> bool:
        """Whether the commit was requested and its outcome is unknown."""
        return not self.is_committed and not self.is_aborted

    def was_asked_before(self, operation: Operation) -> bool:
        """Return whether the commit had been requested when the operation ended."""
        return self.asked_at is not None and (operation.ended is None or self.asked_at < operation.ended)

    def may_be_hit(self, *, commit: bool) -> bool:
        """Return whether an end of the previous transaction was in progress, or lost, when this one began."""
        before = self.previous
        ends = [end for end in before.ends if bool(end.asked["commit"]) is commit] if before is not None else []
        return any(end.outcome == INFO or end.ended is None or end.ended > self.begun for end in ends)


@lru_cache(maxsize=1)  # every checker uses it in turn
def transactions(history: History) -> list[Transaction]:
    """Return all transactions, in the order of their begin."""
    found: dict[str, Transaction] = {}
    last: dict[str, Transaction] = {}
    for operation in history.of("begin"):
        name, transactional_id = operation.asked["transaction"], operation.asked["transactional_id"]
        transaction = Transaction(name, transactional_id, operation.process, operation.begun)
        transaction.previous = last.get(transactional_id)
        found[name] = last[transactional_id] = transaction
    for operation in history.of("send", "offsets", "end"):
        if (name := operation.asked.get("transaction")) is None:
            continue
        transaction = found[name]
        parts = {"send": transaction.sends, "offsets": transaction.offsets, "end": transaction.ends}
        parts[operation.kind].append(operation)
    return list(found.values())
