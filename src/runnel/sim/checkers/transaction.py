"""The transactions of a history: what belongs to each, and what is certain of its end."""

from dataclasses import dataclass, field
from functools import lru_cache

from runnel.sim.history import FAIL, INFO, History, Operation


@dataclass(eq=False)
class Transaction:
    """One transaction of one producer. A producer that dies leaves one without an end, which nobody may commit."""

    name: str
    transactional_id: str
    process: str
    begun: int
    sends: list[Operation] = field(default_factory=list)
    offsets: list[Operation] = field(default_factory=list)
    ends: list[Operation] = field(default_factory=list)
    previous: "Transaction | None" = None
    """The one before it with the same transactional id."""

    @property
    def commits(self) -> list[Operation]:
        return [end for end in self.ends if end.asked["commit"]]

    @property
    def is_committed(self) -> bool:
        return any(commit.is_ok for commit in self.commits)

    @property
    def is_aborted(self) -> bool:
        """Whether it surely is not committed: nobody asked for that, or all who did were refused."""
        return all(commit.outcome == FAIL for commit in self.commits)

    @property
    def asked_at(self) -> int | None:
        """When somebody first asked to commit it."""
        return min((commit.begun for commit in self.commits if commit.outcome != FAIL), default=None)

    @property
    def is_doubtful(self) -> bool:
        """Whether somebody asked to commit it and nobody knows what came of that."""
        return not self.is_committed and not self.is_aborted

    def was_asked_before(self, operation: Operation) -> bool:
        """Whether somebody had asked to commit it when the operation was over."""
        return self.asked_at is not None and (operation.ended is None or self.asked_at < operation.ended)

    def may_be_hit(self, *, commit: bool) -> bool:
        """Whether an end of the transaction before it was still under way, or lost, when this one began."""
        before = self.previous
        ends = [end for end in before.ends if bool(end.asked["commit"]) is commit] if before is not None else []
        return any(end.outcome == INFO or end.ended is None or end.ended > self.begun for end in ends)


@lru_cache(maxsize=1)  # every checker asks for it, one after the other
def transactions(history: History) -> list[Transaction]:
    """All transactions, in the order in which they began."""
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
