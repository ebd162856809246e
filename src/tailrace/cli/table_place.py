"""The place of a table on the command line: a Delta table by its path, an Iceberg table by its catalog and name."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import read_pairs

if TYPE_CHECKING:
    from tailrace.spark.connector.lake.endpoint import LakeEndpoint
    from tailrace.spark.connector.lake.lake_table import LakeTable


def place_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments that name an existing table."""
    options = (
        click.argument("path", required=False),
        click.option("--table", metavar="NAME", help="Iceberg table in the warehouse PATH, such as shop.orders."),
        catalog_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def catalog_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for the catalogs that are not in the folder of a warehouse."""
    return click.option(
        "--catalog",
        multiple=True,
        metavar="NAME=VALUE",
        callback=read_pairs,
        help="Property of an Iceberg catalog instead of PATH, such as uri=http://localhost:8181; can be repeated.",
    )(function)


def make_sink(path: str | None, table: str | None, catalog: dict[str, str], **arguments: Any) -> "LakeEndpoint":
    """Return a table: that of Iceberg if it has a name."""
    from tailrace.spark.connector.delta.delta import delta
    from tailrace.spark.connector.iceberg.iceberg import iceberg

    if table is None:
        if path is None:
            raise click.UsageError("give the path of a Delta table, or the name of an Iceberg table with --table")
        if catalog:
            raise click.UsageError("--catalog is for an Iceberg table; name it with --table")
        return delta(path, **arguments)
    if (path is None) == (not catalog):
        raise click.UsageError("an Iceberg table needs either the folder of a warehouse, or --catalog")
    return iceberg(table, catalog=catalog or path or "", **arguments)


def open_table(path: str | None, table: str | None, catalog: dict[str, str]) -> "LakeTable":
    """Return an existing table; relative paths begin at the working folder."""
    from tailrace.spark.connector.base import FlowPlace
    from tailrace.spark.error import PipelineError

    sink, here = make_sink(path, table, catalog), Path.cwd()
    found = sink.open_table(FlowPlace("table", here, here))
    if found is None:
        raise PipelineError(f"there is no {sink}")
    return found
