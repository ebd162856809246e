"""The interface of connectors: what flows read, and what they write.

A pipeline file declares sources and sinks without reaching the systems that they stand for. Then they are used:

1. `check_source` or `check_sink` when the file is loaded. Neither reaches anything, and both raise `PipelineError`.
2. `connect_source` or `connect_sink` before Spark starts, which takes seconds: is the system there, and does it have
   what is named?
3. `read`, and `prepare` and `write`, for each start of a flow; `sample` in place of them for `tailrace pipeline check`.

One class may be both a source and a sink.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tailrace.spark.connector.durable import sync_batch
from tailrace.spark.connector.error_policy import STOP, ErrorPolicy
from tailrace.spark.connector.reject import RefusedCount, Rejects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Delivery(StrEnum):
    """How often a row arrives at the sink if something fails on the way."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True)
class FlowPlace:
    """What connectors know about the flow that they work for."""

    flow: str
    checkpoint: Path
    output: Path
    """The folder at which relative paths begin."""
    client: Mapping[str, str] = field(default_factory=dict)
    """The configs of Kafka clients by name."""
    mode: str = "append"
    delivery: Delivery = Delivery.EXACTLY_ONCE
    errors: ErrorPolicy = STOP
    refused: RefusedCount = field(default_factory=RefusedCount, compare=False)
    """Counts the rows that the sink refuses, in the driver."""
    is_realtime: bool = False
    """Whether the flow runs in Spark's real-time mode."""
    origin: Mapping[str, str] | None = None
    """The options of the reader of the only source, if its rows keep the place of their record for errors."""

    @property
    def rejects(self) -> Rejects:
        """What tasks of the flow do with records and rows that they reject."""
        return Rejects(self.flow, self.errors, self.client, self.origin)


@dataclass(frozen=True, slots=True)
class FlowStart:
    """One start of a flow, or one check of it, in which nothing may be written."""

    spark: "SparkSession"
    place: FlowPlace
    _settling: list[Callable[[], None]] = field(default_factory=list)

    def before_start(self, action: Callable[[], None]) -> None:
        """Do this when all of the flow has been checked, just before it starts. A check never does it."""
        self._settling.append(action)

    def settle(self) -> None:
        """Do what was left until just before the start."""
        for action in self._settling:
            action()


class Source(ABC):
    """What a flow reads."""

    is_stream: ClassVar[bool] = True
    """Whether `read` returns a stream; a flow has one at least."""

    def check_source(self) -> None:  # noqa: B027 - not every connector needs it
        """Raise `PipelineError` if the arguments do not fit together."""

    def connect_source(self, place: FlowPlace) -> None:  # noqa: B027 - not every connector needs it
        """Raise `PipelineError` if the system cannot be reached, or lacks what is read."""

    @abstractmethod
    def read(self, start: FlowStart) -> "DataFrame":
        """Return the stream for the function of the flow."""

    def stop_source(self, place: FlowPlace) -> None:  # noqa: B027 - not every connector needs it
        """Release what `read` has started in the driver, when the pipeline stops; may be called more than once."""

    def topics_read(self, place: FlowPlace) -> set[tuple[str, str]]:
        """Return the brokers and the name of each topic that is read."""
        return set()

    def origin_options(self, place: FlowPlace) -> dict[str, str] | None:
        """Return the options by which a record is read again, if the rows of `read` can keep its place."""
        return None

    def read_place(self, place: FlowPlace) -> str | None:
        """Return what the positions in a checkpoint are positions of, unless they name it themselves."""
        return None

    def drop_slot(self, place: FlowPlace) -> str | None:
        """Drop the replication slot that the flow has used, and return its description; None without one.

        Raises `SparkSourceError` if the slot cannot be dropped.
        """
        return None

    def missing(self, place: FlowPlace) -> tuple[str, ...]:
        """Return the topics that do not exist yet, because another flow of the file writes them."""
        return ()

    @abstractmethod
    def sample(self, start: FlowStart) -> "DataFrame":
        """Return some of the newest rows, with the columns of `read`, as a batch."""


class Sink(ABC):
    """What a flow writes."""

    modes: ClassVar[tuple[str, ...]] = ("append",)
    """The output modes that the sink can take."""
    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE)
    """What the sink can promise; the first one is the default."""
    takes_origin: ClassVar[bool] = False
    """Whether `prepare` takes rows with the column `ORIGIN`, a text or null, and gives it to `RowRefused`."""

    def needs_origin(self, place: FlowPlace) -> bool:
        """Return whether the sink of this flow has a use for the column."""
        return self.takes_origin

    def check_sink(self) -> None:  # noqa: B027 - not every connector needs it
        """Raise `PipelineError` if the arguments do not fit together."""

    def connect_sink(self, place: FlowPlace) -> None:  # noqa: B027 - not every connector needs it
        """Raise `PipelineError` if the system cannot be reached, or cannot take the rows."""

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        """Return the rows as `write_batch` takes them; raises `PipelineError` if the columns do not fit."""
        return rows

    def write(self, writer: "DataStreamWriter", place: FlowPlace) -> "DataStreamWriter":
        """Return a writer of the flow's rows; by default, one that writes each batch with `write_batch`."""

        def write_batch(batch: "DataFrame", batch_id: int) -> None:
            if place.delivery is Delivery.EXACTLY_ONCE:
                sync_batch(place.checkpoint, batch_id)
            self.write_batch(batch, batch_id, place)

        return writer.foreachBatch(write_batch)

    @abstractmethod
    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        """Write one batch. A batch whose write was interrupted comes again, with the same id and the same rows.

        A task that finds rows which the system refuses, each for a reason of its own, gives them to
        `place.rejects.refuse` as `RowRefused` and writes the others. That stops the flow, or leaves the rows out, or
        sends them to the dead-letter topic, as errors= of the flow says. The driver adds their number by reason to
        `place.refused`.
        """
