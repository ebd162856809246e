"""The sink under test, with places where it can be met, and the same with the decision record switched off.

What is ablated. Everything is as in `format("tailrace")`, with its own desk and its own brokers, but the decision is
not written down before the first commit, and none is found. Why it must differ: a driver that is killed when one
transaction of a batch is committed and another is not leaves no word of that. The next driver is given the batch
again, finds no decision, aborts what is open, and commits what tasks have written this time. The rows of the first
transaction are in the output twice then. With the decision it commits the rest of the first attempt, and drops the
second. Both sinks stand still at the same places, so one plan of kills strikes both at the same points. A flow is
named after the topic that it writes to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from tests.faults.spark_kill_evidence import Evidence
from tests.faults.spark_kill_halt import Halt, halt_folder, pass_by
from tests.faults.spark_kill_plan import Moment

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.batch_end import Desk
from tailrace.spark.claimed_desk import Standing
from tailrace.spark.decision import Decision
from tailrace.spark.source import TailraceDataSource
from tailrace.spark.transaction_desk import open_desk
from tailrace.spark.writer import ExactlyOnceBatchWriter, ExactlyOnceStreamWriter, MicroBatch, Prepared

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COMMIT_PAUSE_S = 0.3  # flows commit at the same time then, so that Spark needs several workers, which take turns


class HaltingDesk:
    """The desk of a sink, with a halt before the decision and one behind the first commit."""

    def __init__(self, desk: Desk, halt: Halt, flow: str) -> None:
        self._desk = desk
        self._halt = halt
        self._flow = flow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desk, name)  # the rest of `Desk`, as it is

    def decide(self, decision: Decision) -> None:
        self._halt.pass_by(Moment.UNDECIDED, self._flow)
        self._desk.decide(decision)

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
        if commit and len(transactions) > 1:
            self._desk.end(transactions[:1], commit=True)
            self._halt.pass_by(Moment.BETWEEN, self._flow)
            transactions = transactions[1:]
        self._desk.end(transactions, commit=commit)


class UndecidedDesk(HaltingDesk):
    """The same, and nothing is written down or found."""

    def take(self, run_id: str) -> Standing:
        return self._desk.take(run_id)._replace(decision=None)

    def decide(self, decision: Decision) -> None:
        self._halt.pass_by(Moment.UNDECIDED, self._flow)


class HaltingBatch(MicroBatch):
    """A micro-batch whose tasks and driver can be met."""

    desk_type = HaltingDesk

    def write(self, iterator: Iterator[Any]) -> Prepared:
        prepared = super().write(iterator)
        if prepared.transaction is not None:
            pass_by(Moment.PREPARED, self._flow)
        return prepared

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        time.sleep(COMMIT_PAUSE_S)
        super().commit(messages)
        if any(isinstance(message, Prepared) and message.transaction is not None for message in messages):
            Evidence(halt_folder()).note_commit(self._flow)
            pass_by(Moment.COMMITTED, self._flow)

    def open_desk(self, sink: str) -> AbstractContextManager[Desk]:
        return self._open(sink)

    @contextmanager
    def _open(self, sink: str) -> Iterator[Desk]:
        with open_desk(self._options.client, sink) as desk:
            yield self.desk_type(desk, Halt(halt_folder()), self._flow)

    @property
    def _flow(self) -> str:
        return str(self._options.topic)


class UndecidedBatch(HaltingBatch):
    """The same, committed without a decision."""

    desk_type = UndecidedDesk


class DecidedSource(TailraceDataSource):
    """The data source as it is, with halts."""

    batch_type: type[HaltingBatch] = HaltingBatch

    @classmethod
    def name(cls) -> str:
        return "decided"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return ExactlyOnceBatchWriter(self.batch_type(self._sink_options(schema)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return ExactlyOnceStreamWriter(self.batch_type(self._sink_options(schema)))


class UndecidedSource(DecidedSource):
    """The data source with the decision record switched off, and the same halts."""

    batch_type = UndecidedBatch

    @classmethod
    def name(cls) -> str:
        return "undecided"
