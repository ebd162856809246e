"""The sink under test, with places where it can be met, and the same with the decision record switched off.

What is ablated. Everything is as in `format("runnel")`, with its own desk and its own brokers, but the decision is
not written down before the first commit, and none is found. Why it must differ: a driver that is killed when one
transaction of a batch is committed and another is not leaves no word of that. The next driver is given the batch
again, finds no decision, aborts what is open, and commits what tasks have written this time. The rows of the first
transaction are in the output twice then. With the decision it commits the rest of the first attempt, and drops the
second. Both sinks stand still at the same places, so one plan of kills strikes both at the same points.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter
from tests.faults.spark_kill_halt import Halt
from tests.faults.spark_kill_plan import Moment

from runnel.client.transaction_state import PreparedTransaction
from runnel.spark.batch_end import Desk
from runnel.spark.decision import Decision
from runnel.spark.source import RunnelDataSource
from runnel.spark.transaction_desk import open_desk
from runnel.spark.writer import ExactlyOnceStreamWriter, MicroBatch, Prepared

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HALT_FOLDER = "SPARK_KILL_HALT_FOLDER"


class HaltingDesk:
    """The desk of a sink, with a halt before the decision and one behind the first commit."""

    def __init__(self, desk: Desk, halt: Halt) -> None:
        self._desk = desk
        self._halt = halt

    def take(self) -> Decision | None:
        return self._desk.take()

    def decide(self, decision: Decision) -> None:
        self._halt.pass_by(Moment.UNDECIDED)
        self._desk.decide(decision)

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
        if commit and len(transactions) > 1:
            self._desk.end(transactions[:1], commit=True)
            self._halt.pass_by(Moment.BETWEEN)
            transactions = transactions[1:]
        self._desk.end(transactions, commit=commit)

    def find_open(self, transactions: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        return self._desk.find_open(transactions)

    def is_search_due(self) -> bool:
        return self._desk.is_search_due()

    def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> Sequence[PreparedTransaction]:
        return self._desk.find_remains(decided, names)


class UndecidedDesk(HaltingDesk):
    """The same, and nothing is written down or found."""

    def take(self) -> Decision | None:
        super().take()
        return None

    def decide(self, decision: Decision) -> None:
        self._halt.pass_by(Moment.UNDECIDED)


class HaltingBatch(MicroBatch):
    """A micro-batch whose tasks and driver can be met."""

    desk_type = HaltingDesk

    def write(self, iterator: Iterator[Any]) -> Prepared:
        prepared = super().write(iterator)
        if prepared.transaction is not None:
            _halt().pass_by(Moment.PREPARED)
        return prepared

    def open_desk(self, sink: str) -> AbstractContextManager[Desk]:
        return self._open(sink)

    @contextmanager
    def _open(self, sink: str) -> Iterator[Desk]:
        with open_desk(self._options.client, sink) as desk:
            yield self.desk_type(desk, _halt())


def _halt() -> Halt:
    return Halt(Path(os.environ[HALT_FOLDER]))


class UndecidedBatch(HaltingBatch):
    """The same, committed without a decision."""

    desk_type = UndecidedDesk


class DecidedSource(RunnelDataSource):
    """The data source as it is, with halts."""

    batch_type: type[HaltingBatch] = HaltingBatch

    @classmethod
    def name(cls) -> str:
        return "decided"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's
        return ExactlyOnceStreamWriter(self.batch_type(self._sink_options(schema)))


class UndecidedSource(DecidedSource):
    """The data source with the decision record switched off, and the same halts."""

    batch_type = UndecidedBatch

    @classmethod
    def name(cls) -> str:
        return "undecided"
