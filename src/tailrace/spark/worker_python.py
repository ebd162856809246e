"""The Python program of Spark's workers.

Spark puts a zip of pyspark first on the path of its Python processes. Python compiles modules from a zip in every
process again, which takes about a second; Spark starts a process for every source of every stream and waits ten seconds
for it. If pyspark is installed with pip, its modules are already compiled, so a wrapper removes the zips from the
path.
"""

import shlex
import sys
import sysconfig
from pathlib import Path

from tailrace.spark.program import write_program

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
    """Return the Python for workers with the pyspark in a folder: this one, or a wrapper of it."""
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    # Spark may use another path to the folder, through links.
    zips = sorted(
        {path for folder in (pyspark, pyspark.resolve()) for path in (folder / "python" / "lib").glob("*.zip")}
    )
    if pyspark.resolve().parent not in installed or not zips:
        return Path(sys.executable)
    script = _SHIM.format(zips="|".join(shlex.quote(str(path)) for path in zips), python=shlex.quote(sys.executable))
    return write_program("python", script, cache)
