"""The check of a folder for a new table."""

import os
from pathlib import Path

from tailrace.spark.error import PipelineError


def check_folder(table: object, folder: Path) -> None:
    """Raise `PipelineError` if a table cannot be created in a folder: it has files, or cannot be written."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise PipelineError(f"{table} cannot be created: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PipelineError(f"{table} cannot be created: the folder {there} cannot be written")
    if folder.exists() and any(folder.iterdir()):
        raise not_a_table(table)


def not_a_table(table: object) -> PipelineError:
    """Return the error for a place that something else uses, or where a table is only half there."""
    return PipelineError(f"{table} cannot be created: the place has files, but no table; name another place")
