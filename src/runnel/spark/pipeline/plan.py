"""What a flow becomes: the options of its readers and its writer, and where its checkpoint is. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runnel.spark.client_setting import BOOTSTRAP_SERVERS
from runnel.spark.error import OptionError
from runnel.spark.option import Delivery, parse_sink_options, parse_source_options
from runnel.spark.pipeline.endpoint import Parquet, Topic
from runnel.spark.pipeline.error import FlowError
from runnel.spark.pipeline.flow import Flow

VALUE = "value"
CHECKPOINTS = Path(".runnel") / "checkpoints"
COMMITTED = {"kafka.isolation.level": "read_committed"}
"""What another flow has written and not decided yet is not read."""


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """A flow with all that Spark is told about it."""

    flow: Flow
    source_options: tuple[dict[str, str], ...]
    sink_options: dict[str, str]
    checkpoint: Path

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def topics_read(self) -> set[tuple[str, str]]:
        """The brokers and the name of every topic that it reads."""
        return {
            (options[BOOTSTRAP_SERVERS], name)
            for source, options in zip(self.flow.sources, self.source_options, strict=True)
            for name in source.names
        }

    @property
    def topic_written(self) -> tuple[str, str] | None:
        """The brokers and the name of the topic that it writes; None for files."""
        sink = self.flow.sink
        return (self.sink_options[BOOTSTRAP_SERVERS], sink.names[0]) if isinstance(sink, Topic) else None


def plan_flow(flow: Flow, client: Mapping[str, str], checkpoints: Path, output: Path) -> FlowPlan:
    """The plan of one flow; raises `FlowError`. `client` holds the settings of Kafka clients by their names."""
    options = {f"kafka.{name}": text for name, text in client.items()}
    plan = FlowPlan(
        flow,
        tuple(COMMITTED | options | plan_source(source) for source in flow.sources),
        plan_sink(flow.sink, options, output),
        checkpoints / flow.name,
    )
    _check_options(plan)
    return plan


def _check_options(plan: FlowPlan) -> None:
    """Refuse what the data source would, but before Spark starts."""
    try:
        for options in plan.source_options:
            parse_source_options(options).for_stream()
        if isinstance(plan.flow.sink, Topic):
            parse_sink_options(plan.sink_options)
    except OptionError as error:
        raise FlowError(plan.name, str(error)) from None


def plan_source(source: Topic) -> dict[str, str]:
    """The options of one reader, without those of its client."""
    options = {"subscribe": ",".join(source.names), "startingOffsets": source.start or "earliest"}
    if source.schema is not None:
        # What is not asked for is not read: only the value is decoded.
        options["columns"] = ",".join(dict.fromkeys((VALUE, *source.include)))
    elif source.include:
        options["columns"] = ",".join(source.include)
    return {**options, **source.options}


def plan_sink(sink: Topic | Parquet, client: Mapping[str, str], output: Path) -> dict[str, str]:
    """The options of the writer."""
    if isinstance(sink, Topic):
        return {**client, "topic": sink.names[0], "delivery": Delivery.EXACTLY_ONCE.value, **sink.options}
    path = sink.path if "://" in sink.path else str(output / sink.path)
    return {"path": path, **sink.options}


def checkpoints_of(file: Path) -> Path:
    """Where the checkpoints of a file's flows are when nobody says where."""
    return file.parent / CHECKPOINTS / file.stem
