"""Pipeline files without code: YAML documents, each a flow whose function is an SQL query.

    name: large_orders
    source: {connector: topic, name: orders, schema: "user string, cents bigint"}
    sql: SELECT user, cents FROM source WHERE cents > 10000
    sink: {connector: topic, name: large_orders, key: user}

The keys of a source or a sink are the arguments of the Python function that `connector` names. Several sources stand
under `sources` by the names that the query uses.
"""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.known import CONNECTORS
from tailrace.spark.error import PipelineError
from tailrace.spark.message import explain_query
from tailrace.spark.pipeline.flow import Flow, collect_flows, flow
from tailrace.spark.pipeline.run_lock import LOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from yaml.nodes import Node

SUFFIXES = (".yaml", ".yml")
SOURCE = "source"
"""What a query calls a single source."""

_NULL = "tag:yaml.org,2002:null"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NAME_LENGTH_MAX = 200  # the checkpoint of a flow is a folder of this name, and file systems stop at 255 bytes
_ARGUMENT = re.compile(r"\b(\w+)=")  # how a message names the argument that is wrong
_TEXT_KEYS = ("mode", "every", "delivery", "state", "latency")
_KEYS = ("name", "source", "sources", "sql", "sink", "errors", "expect", *_TEXT_KEYS)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(map(_is_text, value)))


def _is_options(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value))


_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "name": (_is_texts, "a text or a list of texts"),
    "path": (_is_text, "a text"),
    "key": (_is_texts, "a text or a list of texts"),
    "include": (_is_texts, "a text or a list of texts"),
    "partition_by": (_is_texts, "a text or a list of texts"),
    "options": (_is_options, "a mapping of names to values"),
    "follow": (lambda value: isinstance(value, bool), "true or false"),
}
"""The kinds of those arguments that the functions of connectors take as they are."""


class _YamlError(PipelineError):
    """An error with the line of the file in which it is."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class _Mapping:
    """A mapping of the file, with the line of each key."""

    line: int
    values: dict[str, "Node"]
    lines: dict[str, int]

    @classmethod
    def of(cls, node: "Node", what: str) -> "_Mapping":
        from yaml import SafeLoader
        from yaml.nodes import MappingNode

        if not isinstance(node, MappingNode):
            raise _YamlError(_line(node), f"{what} is a mapping of names to values")
        SafeLoader("").flatten_mapping(
            node
        )  # puts the keys of a merge (<<) before the mapping's own, which replace them
        names = [(str(_value(key)), key, value) for key, value in node.value]
        return cls(_line(node), {name: value for name, _, value in names}, {name: _line(key) for name, key, _ in names})

    def check_names(self, known: Iterable[str], what: str) -> None:
        names = list(known)
        for name in self.values:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; the keys are {', '.join(names)}"
                raise _YamlError(self.lines[name], f"{what} has no key {name}{hint}")

    def line_of(self, message: str) -> int:
        """Return the line of the key that a message names, as `key=`; without one, that of the mapping."""
        _, _, after_place = message.partition("): ")  # a place such as `postgres(table='orders')` has arguments, too
        for text in (after_place, message):
            for found in _ARGUMENT.finditer(text):
                if found[1] in self.lines:
                    return _line_within(self.values[found[1]], text[found.end() :]) or self.lines[found[1]]
        return self.line

    def text(self, name: str) -> str | None:
        node = self.values.get(name)
        if node is None:
            return None
        value = _value(node)
        if not isinstance(value, str) or not value.strip():
            raise _YamlError(_line(node), f"{name} is a text, not {value!r}")
        return value


def load_flows(path: Path) -> tuple[Flow, ...]:
    """Return the flows of a file; raises `PipelineError` with the line of the error."""
    try:
        import yaml
    except ImportError:
        raise PipelineError("a pipeline in YAML needs the extra [spark], which brings PyYAML") from None
    lines: dict[str, int] = {}
    with collect_flows() as flows:
        try:
            for node in yaml.compose_all(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader):
                if node.tag != _NULL:  # of an empty document
                    _check_unique(node)
                    _declare(_Mapping.of(node, "a flow"), lines, path.name)
        except _YamlError as error:
            raise PipelineError(f"{path.name}:{error.line}: {error}") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = path.name if mark is None else f"{path.name}:{mark.line + 1}"
            raise PipelineError(f"{place}: the file is not YAML: {error.problem or error.context}") from None
        except RecursionError:
            raise PipelineError(f"{path.name}: the file is nested too deeply") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise PipelineError(f"{path.name}: the file is not YAML: {' '.join(str(error).split())}") from None
    if not flows:
        raise PipelineError(f"{path.name}: the file declares no flows; a flow has the keys name, source, sql and sink")
    return tuple(flows)


def _check_unique(document: "Node") -> None:
    """Raise an error if a mapping has a key twice, of which YAML would keep the last. Merges must not be done yet."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    waiting, seen = [document], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue  # an alias
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            waiting += node.value
        elif isinstance(node, MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                waiting.append(value)
                if not isinstance(key, ScalarNode):
                    continue
                if key.value in lines:
                    raise _YamlError(_line(key), f"the key {key.value} is already given in line {lines[key.value]}")
                lines[key.value] = _line(key)


def _declare(given: _Mapping, lines: dict[str, int], file: str) -> None:
    """Declare a flow; `lines` has those that are declared before it."""
    given.check_names(_KEYS, "a flow")
    name = given.text("name")
    if name is None:
        raise _YamlError(given.line, "a flow has no name")
    _check_name(name, given.lines["name"])
    if name == LOCK:
        raise _YamlError(given.lines["name"], f"a flow cannot be called {LOCK}, as the lock beside its checkpoint is")
    if name in lines:
        raise _YamlError(
            given.lines["name"], f"flow {name}: a flow of this name is already declared in line {lines[name]}"
        )
    lines[name] = given.lines["name"]
    sources = _read_sources(given)
    function = _query(tuple(sources), given, file)
    function.__name__ = name
    sink = given.values.get("sink")
    options: dict[str, Any] = {key: value for key in _TEXT_KEYS if (value := given.text(key)) is not None}
    for key in ("errors", "expect"):
        if (node := given.values.get(key)) is not None:
            options[key] = _given_value(key, node)
    try:
        flow(source=list(sources.values()), sink=None if sink is None else _read_endpoint(sink, "sink"), **options)(
            function
        )
    except _YamlError:
        raise
    except PipelineError as error:
        raise _YamlError(given.line_of(str(error)), str(error)) from None


def _read_sources(given: _Mapping) -> dict[str, Any]:
    one, many = given.values.get("source"), given.values.get("sources")
    if (one is None) == (many is None):
        raise _YamlError(given.line, "a flow has either source or sources")
    if one is not None:
        return {SOURCE: _read_endpoint(one, "source")}
    assert many is not None  # noqa: S101 - one of the two is given
    named = _Mapping.of(many, "sources")
    for name, line in named.lines.items():
        _check_name(name, line)
        if [other.lower() for other in named.lines].count(name.lower()) > 1:
            raise _YamlError(line, f"the names of sources differ only in case, which SQL ignores: {name}")
    return {name: _read_endpoint(node, f"source {name}") for name, node in named.values.items()}


def _check_name(name: str, line: int) -> None:
    if not _NAME.fullmatch(name):
        raise _YamlError(line, f"{name!r} is not a name: use letters, digits, '_', '-' and '.'")
    if len(name) > _NAME_LENGTH_MAX:
        raise _YamlError(line, f"a name has at most {_NAME_LENGTH_MAX} characters, not {len(name)}")


def _read_endpoint(node: "Node", what: str) -> Any:
    given = _Mapping.of(node, what)
    connector = given.text("connector")
    if connector is None:
        if near := difflib.get_close_matches("connector", given.lines, 1):
            raise _YamlError(given.lines[near[0]], f"{what} has no key {near[0]}; did you mean connector?")
        raise _YamlError(given.line, f"{what} has no connector; the connectors are {', '.join(CONNECTORS)}")
    function = CONNECTORS.get(connector)
    if function is None:
        near = difflib.get_close_matches(connector, CONNECTORS, 1)
        hint = f"did you mean {near[0]}?" if near else f"the connectors are {', '.join(CONNECTORS)}"
        raise _YamlError(given.lines["connector"], f"there is no connector {connector}; {hint}")
    parameters = inspect.signature(function).parameters
    has_places = any(each.kind is each.VAR_POSITIONAL for each in parameters.values())
    names = ["name" if each.kind is each.VAR_POSITIONAL else key for key, each in parameters.items()]
    given.check_names(["connector", *names], f"connector {connector}")
    for key, each in parameters.items():
        if each.default is each.empty and each.kind is not each.VAR_POSITIONAL and key not in given.values:
            raise _YamlError(given.line, f"connector {connector} needs the key {key}")
    values = {key: _given_value(key, value) for key, value in given.values.items() if key != "connector"}
    for key, (is_right, kind) in _KINDS.items():
        if key in values and not is_right(values[key]):
            raise _YamlError(given.lines[key], f"{key} is {kind}, not {values[key]!r}")
    places = values.pop("name", []) if has_places else []
    try:
        return function(*([places] if isinstance(places, str) else places), **values)
    except (PipelineError, TypeError) as error:
        raise _YamlError(given.line_of(str(error)), str(error)) from None


def _query(names: Sequence[str], given: _Mapping, file: str) -> "Callable[..., DataFrame]":
    """Return the function of a flow: its query over the sources, or its source as it is."""
    sql = given.text("sql")
    if sql is None and len(names) > 1:
        raise _YamlError(given.line, "a flow with several sources needs sql")

    def function(*frames: "DataFrame") -> "DataFrame":
        from pyspark.errors import AnalysisException

        if sql is None:
            return frames[0]
        try:
            return _run_query(sql, dict(zip(names, frames, strict=True)))
        except AnalysisException as error:
            reason, line = explain_query(str(error))
            raise PipelineError(f"{file}:{_query_line(given.values['sql'], line)}: {reason}") from None

    return function


def _query_line(node: "Node", line: int) -> int:
    """Return the line of the file that has this line of a query, or the first line where YAML joins the lines."""
    return _line(node) + (line if getattr(node, "style", None) == "|" else 0)


def _run_query(sql: str, frames: Mapping[str, "DataFrame"]) -> "DataFrame":
    """Run a query that can see these frames by their names. Spark resolves the names before this returns."""
    spark = next(iter(frames.values())).sparkSession
    for name, frame in frames.items():
        frame.createOrReplaceTempView(f"`{name}`")
    try:
        return spark.sql(sql)
    finally:
        for name in frames:
            spark.catalog.dropTempView(name)


def _line_within(node: "Node", message: str) -> int | None:
    """Return the line of the innermost key that a message names, of the mappings in a value."""
    from yaml.nodes import MappingNode

    found = None
    for word in re.findall(r"\w+", message):
        if not isinstance(node, MappingNode):
            break
        for key, value in node.value:
            if key.value == word:
                found, node = _line(key), value
                break
    return found


def _given_value(name: str, node: "Node") -> Any:
    """Return the value of a key; raises an error if there is none, so that a default is never taken by mistake."""
    if node.tag == _NULL:
        raise _YamlError(_line(node), f"{name} has no value")
    return _value(node)


def _value(node: "Node") -> Any:
    import yaml

    try:
        return yaml.SafeLoader("").construct_object(node, deep=True)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # of a value that its tag cannot have
        raise _YamlError(_line(node), f"the value is not of the kind {node.tag.rpartition(':')[2]}") from None


def _line(node: "Node") -> int:
    return int(node.start_mark.line) + 1
