"""The decorator that declares a function over DataFrames as a flow."""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.base import Delivery, Sink, Source
from tailrace.spark.connector.error_policy import STOP, ErrorPolicy, check_errors
from tailrace.spark.connector.files import Files
from tailrace.spark.connector.lines.lines import Lines
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.expectation import Expectation, check_rules
from tailrace.spark.pipeline.realtime import check_latency, check_realtime
from tailrace.spark.pipeline.state_store import StateStore, check_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODES = ("append", "update", "complete")
_EVERY = re.compile(r"[1-9]\d* *(milliseconds?|seconds?|minutes?|hours?|days?)")

_declared: ContextVar[list["Flow"] | None] = ContextVar("declared", default=None)


@dataclass(frozen=True, slots=True)
class Flow:
    """A function from the DataFrames of its sources to the DataFrame of its sink. Calling a flow calls the function."""

    name: str
    function: Callable[..., "DataFrame"]
    sources: tuple[Source, ...]
    sink: Sink
    mode: str = "append"
    every: str | None = None
    line: int = 0
    expectations: tuple[Expectation, ...] = ()
    delivery: Delivery = Delivery.EXACTLY_ONCE
    errors: ErrorPolicy = STOP
    state: StateStore | None = None
    is_realtime: bool = False

    def __call__(self, *frames: "DataFrame") -> "DataFrame":
        return self.function(*frames)


def flow(
    *args: Any,
    source: Source | Sequence[Source] | None = None,
    sink: Sink | None = None,
    mode: str | None = None,
    every: str | None = None,
    expect: Mapping[str, Any] | None = None,
    delivery: str | None = None,
    errors: str | Mapping[str, str] | None = None,
    state: str | None = None,
    latency: str | None = None,
) -> Callable[[Callable[..., "DataFrame"]], Flow]:
    """Declare a function as a flow, which `tailrace pipeline run` runs as a streaming query.

        @flow(source=topic("page_views", schema="user string, at timestamp"), sink=topic("counts"), mode="update")
        def counts(page_views): return page_views.groupBy("user").count()

    Several sources are the function's arguments in their order. `mode` is Spark's output mode: rows
    once they are final ("append", the default), rows that have changed ("update") or all rows ("complete"). `every`,
    such as "5 seconds", is how often a batch starts; without it, one follows the other.

    `expect` has rules for the rows of the result by name, such as {"positive": "cents > 0"}. Rows that break a rule are
    counted; with {"positive": {"rule": "cents > 0", "on_fail": "drop"}} they are also left out, with "reject" they go
    to the dead-letter topic, and with "fail" the flow stops.

    `delivery` says how often a row arrives at the sink if something fails on the way: "exactly-once", "at-least-once"
    or "at-most-once". The default is the best that the sink can promise.

    `errors` says what becomes of a record that cannot be decoded, and of a row that the sink refuses: it stops the flow
    ("stop", the default), is left out and counted ("skip"), or goes to a dead-letter topic: {"to": "orders_errors"}.

    `state` says where counts, windows and joins keep what they remember: in "memory" (the default), or on "disk" if it
    may become larger than that.

    With latency="realtime", a flow from topics to a topic runs in Spark's real-time mode, which writes each record when
    it arrives. Its delivery is at least once, and Spark's Kafka connector must be on the class path.
    """
    if args:
        raise PipelineError("@flow needs its arguments by name: @flow(source=topic(…), sink=topic(…))")

    given = {"mode": mode, "every": every, "delivery": delivery, "state": state, "latency": latency}

    def declare(function: Callable[..., "DataFrame"]) -> Flow:
        name, line = _place(function)
        try:
            declared = _check_flow(name, line, function, source, sink, check_errors(errors), expect, given)
        except PipelineError as error:
            raise PipelineError(f"flow {name}: {error}") from None
        _register(declared)
        return declared

    return declare


def _check_flow(
    name: str,
    line: int,
    function: Callable[..., "DataFrame"],
    source: Any,
    sink: Any,
    errors: ErrorPolicy,
    expect: Any,
    given: Mapping[str, str | None],
) -> Flow:
    """Return a flow; raises `PipelineError` for an argument that is wrong, or does not fit the others."""
    sources, target = _check_sources(source), _check_sink(sink)
    every, is_realtime = _check_every(given["every"]), check_latency(given["latency"])
    chosen = {**given, **(check_realtime(sources, target, errors, given) if is_realtime else {})}
    _check_parameters(function, sources)
    return Flow(
        name,
        function,
        sources,
        target,
        _check_mode(chosen["mode"] or MODES[0], target),
        every,
        line,
        check_rules(expect, errors),
        _check_delivery(chosen["delivery"], target),
        errors,
        check_state(chosen["state"]),
        is_realtime,
    )


def _place(function: Any) -> tuple[str, int]:
    """Return the name of a function and its line in the file."""
    if not callable(function):
        raise PipelineError("@flow stands above a function")
    code = getattr(function, "__code__", None)
    return getattr(function, "__name__", "flow"), code.co_firstlineno if code else 0


@contextmanager
def collect_flows() -> Iterator[list[Flow]]:
    """Collect the flows that are declared during the block, in order."""
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
            raise PipelineError(f"flow {declared.name}: a flow of this name is already declared in line {other.line}")
        if (place := sole_place(declared.sink)) is not None and place == sole_place(other.sink):
            # Spark notes the finished batches in a folder, by number, and would take those of one for the other's. A
            # flow that was interrupted cuts its file of lines, with what the other has appended.
            what = "folders" if isinstance(declared.sink, Files) else "files"
            raise PipelineError(f"flow {declared.name}: flow {other.name} writes {declared.sink}, too; use two {what}")
    flows.append(declared)


def sole_place(sink: Sink) -> tuple[str, str] | None:
    """Return the kind of a sink and its path as it was given, if no other flow may write there; otherwise None."""
    return (type(sink).__name__, os.path.normpath(sink.path)) if isinstance(sink, Files | Lines) else None


def _check_sources(source: Source | Sequence[Source] | None) -> tuple[Source, ...]:
    if source is None:
        raise PipelineError("source is missing; a flow reads from a source such as topic(…)")
    sources = tuple(source) if isinstance(source, list | tuple) else (source,)
    if not sources:
        raise PipelineError("source is an empty list")
    for one in sources:
        if not isinstance(one, Source):
            raise PipelineError(f"a source is topic(…) or another connector, not {_kind(one)}")
        one.check_source()
    if not any(one.is_stream for one in sources):
        raise PipelineError(f"a flow needs a source that is a stream, which is joined with {sources[0]}")
    return sources


def _check_sink(sink: Any) -> Sink:
    if sink is None:
        raise PipelineError("sink is missing; a flow writes to a sink such as topic(…)")
    if not isinstance(sink, Sink):
        raise PipelineError(f"a sink is topic(…) or another connector, not {_kind(sink)}")
    sink.check_sink()
    return sink


def _check_mode(mode: Any, sink: Any) -> str:
    if mode not in MODES:
        raise PipelineError(f"mode={mode!r} is not one of {', '.join(MODES)}")
    if mode not in sink.modes:
        raise PipelineError(f"{sink} takes no rows with mode={mode!r}; it takes those of {' or '.join(sink.modes)}")
    return str(mode)


def _check_delivery(delivery: Any, sink: Any) -> Delivery:
    if delivery is None:
        return Delivery(sink.deliveries[0])
    if delivery not in list(Delivery):
        raise PipelineError(f"delivery={delivery!r} is not one of {', '.join(Delivery)}")
    if delivery not in sink.deliveries:
        raise PipelineError(f"delivery={delivery!r} is not possible with {sink}; use {' or '.join(sink.deliveries)}")
    return Delivery(delivery)


def _check_every(every: Any) -> str | None:
    if every is None or (isinstance(every, str) and _EVERY.fullmatch(every.strip())):
        return every
    raise PipelineError(f'every={every!r} is not a duration such as "5 seconds"')


def _check_parameters(function: Callable[..., Any], sources: tuple[Source, ...]) -> None:
    try:
        inspect.signature(function).bind(*sources)
    except TypeError:
        count = len(sources)
        raise PipelineError(
            f"the function must take {count} DataFrame{'s' if count > 1 else ''}, one for each source"
        ) from None


def _kind(value: object) -> str:
    if isinstance(value, Source):
        return f"{value}, which is for sources"
    if isinstance(value, Sink):
        return f"{value}, which is for sinks"
    return repr(value) if isinstance(value, str) else type(value).__name__
