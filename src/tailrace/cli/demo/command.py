"""`tailrace demo`: a broker, live website activity through it, and a pipeline on Spark over that."""

from importlib.util import find_spec

import click

from tailrace.cli.option import read_duration_s

_NEEDED = ("pyspark", "pyarrow", "pandas")


@click.command()
@click.option(
    "--for", "duration_s", callback=read_duration_s, metavar="DURATION", help="Stop after this time, such as 60s."
)
@click.option("--no-spark", is_flag=True, help="Run without Spark: publish events and read them back.")
@click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Spark master.")
def demo(duration_s: float | None, no_spark: bool, master: str) -> None:
    """Show a broker and a pipeline at work until Ctrl-C.

    Starts a broker on a free port, publishes invented website activity to it, runs a pipeline on Spark over that, and
    shows the results. At the end it checks that every acknowledged event was read. All data is in a temporary folder.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing and not no_spark:
        print(
            f"tailrace demo: {missing[0]} is not installed, so the demo runs without Spark; "
            "install the extra [spark] for the whole demo"
        )
    if no_spark or missing:
        from tailrace.cli.demo.plain import run_plain

        status = run_plain(duration_s)
    else:
        from tailrace.cli.demo.pipeline import run_pipeline_demo

        status = run_pipeline_demo(duration_s, master)
    if status:
        raise click.exceptions.Exit(status)
