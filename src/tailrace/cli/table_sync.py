"""`tailrace table sync`: a topic as a table, without a pipeline file."""

from pathlib import Path
from typing import Any, Unpack

import click

from tailrace.cli.pipeline import FileOptions, end_options, file_options, run_files
from tailrace.cli.table_place import catalog_option, make_sink

_FORMATS = ("delta", "iceberg")
_STARTS = ("earliest", "latest")
_VALUES = ("json", "avro", "protobuf")


@click.command()
@click.argument("topic")
@click.option("--to", "format", type=click.Choice(_FORMATS), required=True, help="Format of the table.")
@click.option("--path", metavar="PATH", help="Folder or URL of the Delta table, or folder of the Iceberg warehouse.")
@click.option("--table", metavar="NAME", help="Name of the Iceberg table.  [default: TOPIC]")
@catalog_option
@click.option("--key", default="", metavar="COLUMNS", help="Columns that identify the row to replace or delete.")
@click.option("--schema", metavar="DDL", help='Columns of JSON values, such as "city string, cents bigint".')
@click.option("--value", type=click.Choice(_VALUES), help="Format of values whose schema is in a registry.")
@click.option("--registry", metavar="URL", help="Schema registry.  [default: TAILRACE_REGISTRY_URL]")
@click.option("--changes", is_flag=True, help="Values are changes of a database in Debezium's envelope.")
@click.option("--partition-by", default="", metavar="COLUMNS", help="Columns by whose values a new table is divided.")
@click.option("--start", type=click.Choice(_STARTS), help="Where a new sync starts: earliest by default.")
@click.option("--every", metavar="DURATION", help='How often a batch starts, such as "1 minute".')
@click.option("--errors", metavar="TOPIC", help="Topic for records that cannot be written, which else stop the sync.")
@click.option("--compact", default="10 minutes", show_default=True, help="How often small files are written together.")
@click.option("--keep", default="7 days", show_default=True, help="How long old versions can be read.")
@file_options
@end_options
def sync(
    topic: str,
    format: str,
    path: str | None,
    table: str | None,
    catalog: dict[str, str],
    key: str,
    schema: str | None,
    value: str | None,
    registry: str | None,
    changes: bool,
    partition_by: str,
    start: str | None,
    every: str | None,
    errors: str | None,
    compact: str,
    keep: str,
    duration_s: float | None,
    once: bool,
    restarts_max: int | None,
    **given: Unpack[FileOptions],
) -> None:
    """Write TOPIC to a Delta or an Iceberg table until Ctrl-C or SIGTERM.

    Without --key, each record becomes a row. With --key, a record replaces the row of its key, and one without a value
    deletes it; a key column that values do not have is the key of the record, as text. The table is created if it is
    missing. A sync continues from its checkpoint, and writes each record exactly once.
    """
    from tailrace.spark.pipeline.load import Pipeline
    from tailrace.spark.pipeline.plan import checkpoints_of
    from tailrace.spark.pipeline.table_sync import SyncSource, check_checkpoint, flow_name, sink_arguments, sync_flow

    if format == "delta" and (table is not None or catalog):
        raise click.UsageError("--table and --catalog are for Iceberg")
    source = SyncSource(topic, schema, value, registry, changes, start)
    arguments: dict[str, Any] = {"partition_by": partition_by, "compact": compact, "keep": keep}
    name = None if format == "delta" else table or topic
    sink = make_sink(path, name, catalog, **arguments, **sink_arguments(source, key))
    flow = sync_flow(source, key, sink, every, None if errors is None else {"to": errors})
    place = Path.cwd() / flow_name(topic)
    if not key:
        check_checkpoint(sink, flow.name, checkpoints_of(place, given["checkpoint"]) / flow.name, given["output"])
    run_files((place,), duration_s, once, restarts_max, lambda file: Pipeline(file, (flow,)), **given)
