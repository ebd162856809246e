"""The result of `tailrace pipeline check`: what a flow reads and writes, its columns, and some rows."""

import json
from typing import TYPE_CHECKING, Any

from tailrace.cli.output import write_line, write_table

if TYPE_CHECKING:
    from tailrace.spark.pipeline.plan import FlowPlan
    from tailrace.spark.pipeline.sample import Sample


def describe_sample(plan: "FlowPlan", sample: "Sample") -> dict[str, Any]:
    """Return a flow as a JSON object."""
    return {
        "flow": plan.name,
        "sources": [str(source) for source in plan.flow.sources],
        "sink": str(plan.flow.sink),
        "mode": plan.flow.mode,
        "columns": sample.columns,
        "missing": list(sample.missing),
        "rows": [{name: _plain(value) for name, value in row.items()} for row in sample.rows],
    }


def write_sample(plan: "FlowPlan", sample: "Sample") -> None:
    """Print a flow for people."""
    sources = " and ".join(map(str, plan.flow.sources))
    columns = ", ".join(f"{name} {kind}" for name, kind in sample.columns.items())
    write_line(f"tailrace: flow {plan.name} is correct: {sources} -> {plan.flow.sink}, mode {plan.flow.mode}")
    write_line(f"  columns: {columns}")
    if sample.missing:
        write_line(f"  no sample: topic {sample.missing[0]} does not exist yet")
    elif not sample.rows:
        write_line("  no sample: the newest records of the sources give no rows")
    else:
        write_table(list(sample.columns), [[_text(value) for value in row.values()] for row in sample.rows])


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> Any:
    """Return a value as JSON can hold it: times and decimals as text, bytes as text if they are UTF-8."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)
