"""The demo, `make demo`: a broker, live website activity through it, and a pipeline on Spark over that."""

import sys
from importlib.util import find_spec

import click

from runnel.cli.main import run_command
from runnel.cli.option import read_duration_s

_NEEDED = ("pyspark", "pyarrow", "pandas")


@click.command()
@click.option(
    "--for", "duration_s", callback=read_duration_s, metavar="DURATION", help="Run for this long, such as 60s, and end."
)
@click.option("--no-spark", is_flag=True, help="Only the broker: publish, and read back.")
@click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Any Spark master.")
def demo(duration_s: float | None, no_spark: bool, master: str) -> None:
    """Publish live website activity, run a pipeline over it, and show the results until Ctrl-C."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing and not no_spark:
        print(f"runnel demo: {missing[0]} is not installed (pip install 'runnel[spark]'), so this is the broker alone")
    if no_spark or missing:
        from runnel.cli.demo_plain import run_plain

        status = run_plain(duration_s)
    else:
        from runnel.cli.demo_pipeline import run_pipeline_demo

        status = run_pipeline_demo(duration_s, master)
    if status:
        raise click.exceptions.Exit(status)


if __name__ == "__main__":
    sys.exit(run_command(demo))
