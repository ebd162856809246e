"""The decorator that makes a function over DataFrames a flow of a pipeline."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runnel.spark.pipeline.endpoint import Parquet, Topic
from runnel.spark.pipeline.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODES = ("append", "update", "complete")
_EVERY = re.compile(r"[1-9]\d* *(milliseconds?|seconds?|minutes?|hours?|days?)")

_declared: ContextVar[list["Flow"] | None] = ContextVar("declared", default=None)


@dataclass(frozen=True, slots=True)
class Flow:
    """A function from the DataFrames of its sources to the one that its sink gets. Calling it calls the function."""

    name: str
    function: Callable[..., "DataFrame"]
    sources: tuple[Topic, ...]
    sink: Topic | Parquet
    mode: str = "append"
    every: str | None = None
    line: int = 0

    def __call__(self, *frames: "DataFrame") -> "DataFrame":
        return self.function(*frames)


def flow(
    *args: Any,
    source: Topic | Sequence[Topic] | None = None,
    sink: Topic | Parquet | None = None,
    mode: str = "append",
    every: str | None = None,
) -> Callable[[Callable[..., "DataFrame"]], Flow]:
    """Make a function a flow, which `runnel pipeline run` runs as one streaming query.

        @flow(source=topic("page_views", schema="user string, at timestamp"), sink=topic("counts"), mode="update")
        def counts(page_views): return page_views.groupBy("user").count()

    Several sources are the function's arguments in their order. `mode` is Spark's output mode: rows
    once they are final ("append"), rows that have changed ("update") or all rows ("complete"). `every`,
    such as "5 seconds", is how often a batch starts; without it, one follows the other.
    """
    if args:
        raise PipelineError("@flow needs its arguments by name: @flow(source=topic(…), sink=topic(…))")

    def declare(function: Callable[..., "DataFrame"]) -> Flow:
        if not callable(function):
            raise PipelineError("@flow stands above a function")
        name = getattr(function, "__name__", "flow")
        code = getattr(function, "__code__", None)
        try:
            sources = _check_sources(source)
            declared = Flow(
                name,
                function,
                sources,
                _check_sink(sink),
                _check_mode(mode, sink),
                _check_every(every),
                code.co_firstlineno if code else 0,
            )
            _check_parameters(function, sources)
        except PipelineError as error:
            raise PipelineError(f"flow {name}: {error}") from None
        _register(declared)
        return declared

    return declare


@contextmanager
def collect_flows() -> Iterator[list[Flow]]:
    """The flows that are declared while the block runs, in their order."""
    flows: list[Flow] = []
    token = _declared.set(flows)
    try:
        yield flows
    finally:
        _declared.reset(token)


def _register(declared: Flow) -> None:
    flows = _declared.get()
    if flows is None:
        return
    for other in flows:
        if other.name == declared.name:
            raise PipelineError(f"flow {declared.name}: line {other.line} has a flow of this name already")
    flows.append(declared)


def _check_sources(source: Topic | Sequence[Topic] | None) -> tuple[Topic, ...]:
    if source is None:
        raise PipelineError("source is missing; a flow reads from topic(…)")
    sources = tuple(source) if isinstance(source, list | tuple) else (source,)
    if not sources:
        raise PipelineError("source has no topics")
    for one in sources:
        if not isinstance(one, Topic):
            raise PipelineError(f"a source is topic(…), not {_kind(one)}")
        for name, value in (("key", one.key), ("format", one.encoding), ("partitions", one.partitions)):
            if value is not None:
                raise PipelineError(f"{one} is a source, and {name}= is for a sink")
        if one.malformed is not None and one.schema is None:
            raise PipelineError(f"{one} has no schema, so nothing of it can be malformed")
    return sources


def _check_sink(sink: Any) -> Topic | Parquet:
    if sink is None:
        raise PipelineError("sink is missing; a flow writes to topic(…) or parquet(…)")
    if not isinstance(sink, Topic | Parquet):
        raise PipelineError(f"a sink is topic(…) or parquet(…), not {_kind(sink)}")
    if isinstance(sink, Parquet):
        return sink
    if len(sink.names) > 1:
        raise PipelineError(f"a flow writes to one topic, not to {len(sink.names)}: declare a flow for each")
    given = {"schema": sink.schema, "malformed": sink.malformed, "start": sink.start, "include": sink.include or None}
    for name, value in given.items():
        if value is not None:
            raise PipelineError(f"{sink} is a sink, and {name}= is for a source")
    if sink.key is not None and sink.encoding == "raw":
        raise PipelineError(f"{sink} is written raw, and takes its keys from the column key; leave out key=")
    return sink


def _check_mode(mode: Any, sink: Any) -> str:
    if mode not in MODES:
        raise PipelineError(f"mode={mode!r} is none of {', '.join(MODES)}")
    if isinstance(sink, Parquet) and mode != "append":
        raise PipelineError(f'Parquet files are only added to, so mode="{mode}" cannot be: use "append" or a topic')
    return str(mode)


def _check_every(every: Any) -> str | None:
    if every is None or (isinstance(every, str) and _EVERY.fullmatch(every.strip())):
        return every
    raise PipelineError(f'every={every!r} is no time such as "5 seconds"')


def _check_parameters(function: Callable[..., Any], sources: tuple[Topic, ...]) -> None:
    try:
        inspect.signature(function).bind(*sources)
    except TypeError:
        count = len(sources)
        raise PipelineError(
            f"the function must take {count} DataFrame{'s' if count > 1 else ''}, one for each source"
        ) from None


def _kind(value: object) -> str:
    if isinstance(value, Parquet):
        return "parquet(…), which is for sinks"
    return repr(value) if isinstance(value, str) else type(value).__name__
