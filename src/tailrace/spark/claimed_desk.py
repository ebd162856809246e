"""The steps by which a worker claims a sink, by the rules of `claim`.

A subclass implements reading and writing records and taking the sink's transactional id. So the desk over real
brokers and the desk of the tests' model share the order of the steps.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.claim import Claim, check_run, extend_claim, list_remains
from tailrace.spark.decision import Decision
from tailrace.spark.error import WriteError


class Standing(NamedTuple):
    """The state that a worker finds when it has claimed the sink.

    `is_first` means that its run had not claimed the sink before; `listed` has what earlier runs may still abort.
    """

    decision: Decision | None
    is_first: bool
    listed: Collection[PreparedTransaction]


class ClaimedDesk(ABC):
    """The claim of one worker on one sink. After an error, a desk must not be used again."""

    def __init__(self, sink: str) -> None:
        self._sink = sink
        self._worker = uuid.uuid4().hex
        self._has_id = False
        self._claim: Claim | None = None
        self._decision: Decision | None = None
        self._run_id: str | None = None

    def take(self, run_id: str) -> Standing:
        """Claim the sink, so that other workers and earlier runs cannot decide.

        Raises `RunReplaced` if a later run of the query has claimed the sink.
        """
        self._look()
        check_run(self._claim, run_id, self._sink)  # before the id would be taken from the run that replaced this one
        if not self._holds(run_id):
            self._take_id()
            self._has_id = True
            self._read()
            check_run(self._claim, run_id, self._sink)
        self._run_id = run_id
        before = self._claim
        self._change_claim(extend_claim(before, self._worker, run_id))
        is_first = before is None or before.runs[-1] != run_id
        return Standing(self._decision, is_first, () if before is None else before.remains)

    def has_passed(self, run_id: str, batch_id: int) -> bool:
        """Return whether this run has claimed the sink before, and the last decision is about an earlier batch.

        Then earlier runs have left nothing open, and have not written this batch.
        """
        decided = self._decision
        return self._run_id == run_id and (decided is None or decided.batch_id < batch_id)

    def decide(self, decision: Decision) -> None:
        """Write a decision durably; raises if another worker has claimed the sink since."""
        self._write_decision(decision)
        self._decision = decision

    def list_remains(self, remains: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        """List in the claim what is aborted next, and return it; raises if another worker has claimed the sink."""
        if self._claim is None:
            raise WriteError(f"a worker that has not claimed {self._sink} cannot abort its remains")
        changed = list_remains(self._claim, remains)
        self._change_claim(changed)
        return changed.remains

    def _holds(self, run_id: str) -> bool:
        """Return whether this worker still holds the claim for this run, so that it need not take the id again.

        If another worker has taken the id but not written its claim yet, the next write of this worker fails.
        """
        claim = self._claim
        return self._has_id and claim is not None and claim.worker == self._worker and claim.runs[-1] == run_id

    def _change_claim(self, claim: Claim) -> None:
        if claim != self._claim:
            self._write_claim(claim)
            self._claim = claim

    @abstractmethod
    def _look(self) -> None:
        """Read the records that are available without waiting."""

    @abstractmethod
    def _take_id(self) -> None:
        """Take the transactional id of the sink, which aborts the open transaction of another worker."""

    @abstractmethod
    def _read(self) -> None:
        """Read all records, waiting for open transactions of other sinks."""

    @abstractmethod
    def _write_claim(self, claim: Claim) -> None:
        """Write a claim; raises if another worker has taken the id since."""

    @abstractmethod
    def _write_decision(self, decision: Decision) -> None:
        """Write a decision; raises if another worker has taken the id since."""
