"""Avro values decoded to Arrow columns and encoded from them, next to fastavro by row.

    python -m bench.avro_column [--rows 100000] [--rounds 7] [--write]

Both take turns in one process, and each figure is the median of the rounds in CPU time of one thread.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from bench import machine
from bench.cache import CHECKOUT
from bench.section import write_section
from tailrace.records.arrow.avro_decode import AvroDecoder
from tailrace.records.arrow.avro_encode import AvroEncoder
from tailrace.records.avro.parser import Parser

SCHEMA_ID = 7
HEADING = "Avro by column"


def field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


def record(*fields: dict[str, Any], name: str = "Row") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


FLAT = record(
    field("id", "long"),
    field("user", "string"),
    field("url", "string"),
    field("status", "int"),
    field("ms", "double"),
    field("ok", "boolean"),
    field("referrer", ["null", "string"]),
    field("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}),
)
NESTED = record(
    field("id", "long"),
    field("tags", {"type": "array", "items": "string"}),
    field("counts", {"type": "map", "values": "long"}),
    field("address", ["null", record(field("city", "string"), field("zip", ["null", "int"]), name="Address")]),
)


def flat_row(dice: random.Random) -> dict[str, Any]:
    return {
        "id": dice.randrange(2**40),
        "user": f"user{dice.randrange(10**6)}",
        "url": f"/articles/{dice.randrange(10**6)}",
        "status": dice.randrange(600),
        "ms": dice.random(),
        "ok": dice.random() < 0.5,
        "referrer": None if dice.random() < 0.5 else "https://example.com",
        "kind": dice.choice("ABC"),
    }


def nested_row(dice: random.Random) -> dict[str, Any]:
    address = {"city": "Berlin", "zip": None if dice.random() < 0.5 else dice.randrange(99999)}
    return {
        "id": dice.randrange(2**40),
        "tags": [f"tag{dice.randrange(9)}" for _ in range(dice.randrange(4))],
        "counts": {f"key{key}": dice.randrange(1000) for key in range(dice.randrange(4))},
        "address": None if dice.random() < 0.3 else address,
    }


class Case(NamedTuple):
    """The same work by column and by row."""

    name: str
    by_column: Callable[[], object]
    by_row: Callable[[], object]


class Result(NamedTuple):
    """Rows a second of a case, the medians of all rounds."""

    name: str
    by_column: float
    by_row: float

    @property
    def times(self) -> float:
        """How many times as fast the columns are."""
        return self.by_column / self.by_row


def cases(
    name: str, schema: dict[str, Any], make_row: Callable[[random.Random], dict[str, Any]], count: int
) -> list[Case]:
    """Return what is measured for one kind of rows."""
    dice = random.Random(1)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    rows = [make_row(dice) for _ in range(count)]

    def write_by_row() -> list[bytes]:
        values = []
        for row in rows:
            out = io.BytesIO()
            out.write(b"\x00" + SCHEMA_ID.to_bytes(4))
            fastavro.schemaless_writer(out, parsed, row)
            values.append(out.getvalue())
        return values

    column = pa.array(write_by_row(), pa.binary())
    type_ = Parser(is_new=True).parse(json.dumps(schema))
    decoder, encoder = AvroDecoder(type_, SCHEMA_ID), AvroEncoder(type_, SCHEMA_ID)
    decoded = decoder.decode(column)
    if not encoder.encode(decoded).equals(column):
        raise RuntimeError(f"the {name} rows that were decoded are encoded differently")

    def read_by_row() -> list[Any]:
        return [fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None) for value in column.to_pylist()]

    return [
        Case(f"decode {name} rows", lambda: decoder.decode(column), read_by_row),
        Case(
            f"decode {name} rows, fastavro to a table",
            lambda: decoder.decode(column),
            lambda: pa.Table.from_pylist(read_by_row()),
        ),
        Case(f"encode {name} rows", lambda: encoder.encode(decoded), write_by_row),
    ]


def seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of one call, without the garbage of the calls before."""
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def measure(chosen: Sequence[Case], row_count: int, rounds: int) -> list[Result]:
    """Measure all cases in turn, round after round, so that other work on the machine meets them alike."""
    taken: list[tuple[list[float], list[float]]] = [([], []) for _ in chosen]
    for round_ in range(rounds + 1):
        for case, (columns, rows) in zip(chosen, taken, strict=True):
            by_column_s, by_row_s = seconds(case.by_column), seconds(case.by_row)
            if round_:  # the first one warms up
                columns.append(by_column_s)
                rows.append(by_row_s)
    return [
        Result(case.name, row_count / statistics.median(columns), row_count / statistics.median(rows))
        for case, (columns, rows) in zip(chosen, taken, strict=True)
    ]


def table(results: Sequence[Result]) -> str:
    """Return the results as a table of Markdown."""
    lines = ["| rows a second | by column | fastavro | times |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {each.name} | {each.by_column:,.0f} | {each.by_row:,.0f} | {each.times:.1f} |" for each in results]
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.avro_column", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each kind (default 100000)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the first, which warms up (default 7)")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks/registry.md")
    given = parser.parse_args()
    kinds = (("flat", FLAT, flat_row), ("nested", NESTED, nested_row))
    chosen = [case for kind in kinds for case in cases(*kind, given.rows)]
    found = table(measure(chosen, given.rows, given.rounds))
    print(found)
    if given.write:
        command = machine.command_line("bench.avro_column", rows=given.rows, rounds=given.rounds)
        body = (
            f"Written by `{command} --write`: {given.rows:,} rows of 8 flat fields, and as many of an array, a map\n"
            f"and an optional record. Each figure is the median of {given.rounds} rounds, in which columns and rows\n"
            f"take turns, in CPU time of one thread.\n\n{found}\n\n"
            f"{machine.table(machine.conditions('tailrace', 'fastavro', 'pyarrow'))}"
        )
        write_section(CHECKOUT / "docs" / "benchmarks" / "registry.md", HEADING, body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
