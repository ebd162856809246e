"""The Python that Spark starts for sources and for functions.

Spark puts a zip of pyspark first on the path of its Python processes. Python compiles what it imports
from a zip in every process anew, about a second each, and Spark starts one for every source of every
stream and waits ten seconds for it. Where pyspark is installed with pip the same modules are there
compiled, so a program leaves the zips out of the path before it becomes Python.
"""

import shlex
import sys
import sysconfig
from pathlib import Path

from runnel.spark.program import write_program

_SHIM = """#!/bin/sh
# What is in these zips is installed, too, and compiled there already.
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
    case "$entry" in
        {zips}) ;;
        *) kept="$kept${{kept:+:}}$entry" ;;
    esac
done
PYTHONPATH=$kept
export PYTHONPATH
exec {python} "$@"
"""


def find_worker_python(pyspark: Path, cache: Path | None = None) -> Path:
    """The Python for workers on this machine, for the pyspark in a folder: this one, or a program that runs it."""
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    # Spark may know the folder by another name, where there are links on the way.
    zips = sorted(
        {path for folder in (pyspark, pyspark.resolve()) for path in (folder / "python" / "lib").glob("*.zip")}
    )
    if pyspark.resolve().parent not in installed or not zips:
        return Path(sys.executable)
    script = _SHIM.format(zips="|".join(shlex.quote(str(path)) for path in zips), python=shlex.quote(sys.executable))
    return write_program("python", script, cache)
