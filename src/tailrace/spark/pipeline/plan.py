"""The plan of a flow: where it runs, and what it needs to be there."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.error import PipelineError, SparkSourceError
from tailrace.spark.pipeline.delivery_note import check_delivery
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.expectation import OnFail
from tailrace.spark.pipeline.flow import Flow
from tailrace.spark.pipeline.source_note import check_sources

CHECKPOINTS = Path(".tailrace") / "checkpoints"


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """A flow and its place."""

    flow: Flow
    place: FlowPlace

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def checkpoint(self) -> Path:
        return self.place.checkpoint

    @property
    def topics_read(self) -> set[tuple[str, str]]:
        """The brokers and the name of every topic that the flow reads."""
        return {read for source in self.flow.sources for read in source.topics_read(self.place)}

    @property
    def places_read(self) -> tuple[str | None, ...]:
        """What the positions of each source are positions of."""
        return tuple(source.read_place(self.place) for source in self.flow.sources)

    @property
    def topics_written(self) -> tuple[tuple[str, str], ...]:
        """The brokers and the name of every topic that the flow writes."""
        sink = self.flow.sink
        return sink.topics_written(self.place) if isinstance(sink, Topic) else ()

    @property
    def dead_letter_topic(self) -> tuple[str, str] | None:
        """The brokers and the name of the topic for dead letters, if the flow has one."""
        name = self.flow.errors.topic
        return None if name is None else (self.place.client["bootstrap.servers"], name)

    def connect(self) -> None:
        """Reach what the flow reads and writes; raises `FlowError` if that is not possible, or an option is wrong."""
        try:
            check_sources(self.checkpoint, self.places_read)
            check_delivery(self.checkpoint, self.flow.delivery)
            for source in self.flow.sources:
                source.connect_source(self.place)
            self.flow.sink.connect_sink(self.place)
            self._check_dead_letters()
        except SparkSourceError as error:
            raise FlowError(self.name, str(error)) from None

    def _check_dead_letters(self) -> None:
        topic = self.dead_letter_topic
        if topic is not None and topic in self.topics_read:
            raise PipelineError(f"errors=: the flow reads topic {topic[1]}, and would read its own dead letters")
        if topic is not None and topic in self.topics_written:
            raise PipelineError(f"errors=: the flow writes its rows to topic {topic[1]}; name another for dead letters")


def plan_flow(flow: Flow, client: Mapping[str, str], checkpoints: Path, output: Path) -> FlowPlan:
    """Plan one flow, and reach what it needs; raises `FlowError`."""
    plan = plan_of(flow, client, checkpoints, output)
    plan.connect()
    return plan


def plan_of(flow: Flow, client: Mapping[str, str], checkpoints: Path, output: Path) -> FlowPlan:
    """Plan one flow without reaching anything. `client` holds the configs of Kafka clients by name."""
    checkpoint = checkpoints / flow.name
    place = FlowPlace(
        flow.name,
        checkpoint,
        output,
        dict(client),
        flow.mode,
        flow.delivery,
        flow.errors,
        is_realtime=flow.is_realtime,
    )
    return FlowPlan(flow, replace(place, origin=_origin(flow, place)))


def _origin(flow: Flow, place: FlowPlace) -> dict[str, str] | None:
    """Return the options by which records of rejected rows are read again; None if rows do not keep their place."""
    rejects_rows = any(each.on_fail in (OnFail.REJECT, OnFail.FAIL) for each in flow.expectations)
    names_records = flow.sink.needs_origin(place) or rejects_rows
    if len(flow.sources) > 1 or flow.errors.action is OnError.SKIP or flow.is_realtime or not names_records:
        return None
    return flow.sources[0].origin_options(place)


def checkpoints_of(file: Path, chosen: Path | None = None) -> Path:
    """Return the folder for the checkpoints of a file: the chosen one, or one beside the file."""
    return Path(os.path.abspath(chosen or file.parent / CHECKPOINTS / file.stem))
