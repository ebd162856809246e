"""How a worker claims a sink and keeps its claim; `claim` has the rules, and a subclass has the brokers.

A subclass says how records are read and written, and how the transactional id of the sink is taken. So the desk over
real brokers and the one of the model, which tests run in every order, share the order of these steps.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple

from runnel.client.transaction_state import PreparedTransaction
from runnel.spark.claim import Claim, check_run, extend_claim, list_remains
from runnel.spark.decision import Decision
from runnel.spark.error import WriteError


class Standing(NamedTuple):
    """What a worker finds when it has taken the desk.

    `is_first` says that its run had not claimed the sink before; `listed` is what earlier runs may still abort.
    """

    decision: Decision | None
    is_first: bool
    listed: Collection[PreparedTransaction]


class ClaimedDesk(ABC):
    """The claim of one worker on one sink. A desk that has raised an error is not to be used again."""

    def __init__(self, sink: str) -> None:
        self._sink = sink
        self._worker = uuid.uuid4().hex
        self._has_id = False
        self._claim: Claim | None = None
        self._decision: Decision | None = None
        self._run_id: str | None = None

    def take(self, run_id: str) -> Standing:
        """Keep other workers and earlier runs from deciding.

        Raises `RunReplaced` if a later run of the query has claimed the sink.
        """
        self._look()
        check_run(self._claim, run_id, self._sink)  # before the id is taken from the run that replaced this one
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

    def has_taken(self, run_id: str) -> bool:
        """Whether this desk was taken in this run before, so that nothing of earlier runs waits for its end."""
        return self._run_id == run_id

    def decide(self, decision: Decision) -> None:
        """Write a decision down for good; raises if another worker has taken the desk since."""
        self._write_decision(decision)
        self._decision = decision

    def list_remains(self, remains: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        """Note in the claim what is aborted next, and return it; raises if another worker has taken the desk since."""
        if self._claim is None:
            raise WriteError(f"a worker that has not claimed {self._sink} cannot abort its remains")
        changed = list_remains(self._claim, remains)
        self._change_claim(changed)
        return changed.remains

    def _holds(self, run_id: str) -> bool:
        """Whether the newest claim is that of this worker for this run, so that the id need not be taken again.

        If another worker has taken the id and not written its claim yet, the next write of this one fails.
        """
        claim = self._claim
        return self._has_id and claim is not None and claim.worker == self._worker and claim.runs[-1] == run_id

    def _change_claim(self, claim: Claim) -> None:
        if claim != self._claim:
            self._write_claim(claim)
            self._claim = claim

    @abstractmethod
    def _look(self) -> None:
        """Read what can be read without waiting."""

    @abstractmethod
    def _take_id(self) -> None:
        """Take the transactional id of the sink, which aborts what another worker is about to write."""

    @abstractmethod
    def _read(self) -> None:
        """Read everything, past transactions of other sinks that are about to end."""

    @abstractmethod
    def _write_claim(self, claim: Claim) -> None:
        """Write a claim; raises if the id was taken since."""

    @abstractmethod
    def _write_decision(self, decision: Decision) -> None:
        """Write a decision; raises if the id was taken since."""
