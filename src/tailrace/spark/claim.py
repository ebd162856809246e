"""The rules by which Python workers and runs of a query claim a sink. Pure.

Theory of operation. Spark runs a sink's `commit` in whichever Python worker of the driver is free, so the workers of
one run take turns. A worker that takes over claims the sink: it takes the sink's transactional id, which keeps every
other worker from deciding, reads the newest claim, and writes its own. A claim names the worker and lists the runs of
the query in the order in which they first claimed the sink. So a run is in one of three places:

- It is the last of the list. It has the sink, and any of its workers may take over.
- It is not in the list. It is a new run; it is added at the end, and from then on the run before it is replaced.
- It is in the list, before the last. A later run has replaced it, and it can never decide again.

Two workers cannot both succeed: claims and decisions are written in transactions of the sink's transactional id, and
taking that id aborts the transaction of the worker that had it. What a worker has read after it took the id is
therefore still the newest when its own write succeeds.

A run also aborts the remains of other runs, and it may be slow: a later run may have claimed the sink meanwhile. So a
claim lists the remains before any of them is aborted. A new run whose tasks wrote before it claimed the sink looks
whether its own transactions are listed, and does not decide for them if they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from tailrace.base.limits import SPARK_REMAINS_BYTES_MAX, SPARK_RUNS_CLAIMED_MAX
from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.decision_record import decode_record, encode_record, read_transactions
from tailrace.spark.error import WriteError

_REST_BYTES_MAX = 40  # of a transaction in JSON, without its id


class RunReplaced(WriteError):
    """A later run of the query has claimed the sink."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The worker that decides, the runs that have claimed the sink with the newest last, and the listed remains."""

    worker: str
    runs: tuple[str, ...]
    remains: tuple[PreparedTransaction, ...] = ()

    def encode(self) -> bytes:
        """Return the value of the claim's record; the key contains the sink's name."""
        return encode_record(worker=self.worker, runs=self.runs, remains=self.remains)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Decode a claim from the value of a record; raises `UnreadableRecord`."""
        return decode_record(
            value,
            "claim",
            lambda fields: cls(
                str(fields["worker"]), tuple(map(str, fields["runs"])), read_transactions(fields["remains"])
            ),
        )


def check_run(newest: Claim | None, run_id: str, sink: str) -> None:
    """Raise `RunReplaced` if a later run than this one has claimed the sink."""
    if newest is not None and run_id in newest.runs[:-1]:
        raise RunReplaced(
            f"run {run_id} of the query no longer writes to {sink}: run {newest.runs[-1]} has replaced it. Two drivers "
            "run this query, or end_query was called for it; stop one driver, or start the query again"
        )


def extend_claim(newest: Claim | None, worker: str, run_id: str) -> Claim:
    """Return the claim of a worker for its run, which `check_run` has accepted."""
    if newest is None:
        return Claim(worker, (run_id,))
    runs = newest.runs if run_id in newest.runs[-1:] else (*newest.runs, run_id)
    # Another run may still abort the listed remains, so they stay listed until this run lists its own.
    return Claim(worker, runs[-SPARK_RUNS_CLAIMED_MAX:], newest.remains)


def list_remains(claim: Claim, found: Sequence[PreparedTransaction]) -> Claim:
    """Return the claim with the next remains to abort: the ones already listed, then as many as fit."""
    listed = set(claim.remains)
    kept = []
    left_bytes = SPARK_REMAINS_BYTES_MAX
    for transaction in sorted(found, key=lambda transaction: transaction not in listed):
        left_bytes -= len(transaction.transactional_id) + _REST_BYTES_MAX
        if left_bytes < 0:
            break
        kept.append(transaction)
    return replace(claim, remains=tuple(kept))
