"""The maintenance of a table: small files are written together, and old versions are deleted, now or on a schedule."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tailrace.spark.connector.lake.compaction import FILES_MIN, choose_groups
from tailrace.spark.connector.lake.lake_table import LakeTable
from tailrace.spark.connector.lake.setting import SinkSettings
from tailrace.spark.connector.lake.table_file import Described, TableFiles
from tailrace.spark.connector.lake.task import merge_files
from tailrace.spark.error import ConnectorError

log = logging.getLogger("tailrace.spark.table")

_FILES_MAX = 100
"""A partition with so many small files is compacted at once: readers open each of them."""

Merge = Callable[[TableFiles, Sequence[Sequence[Described]], str], list[Described]]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The number of files that were replaced, and of those that replace them."""

    removed: int = 0
    added: int = 0


def merge_here(files: TableFiles, groups: Sequence[Sequence[Described]], stem: str) -> list[Described]:
    """Write groups of files in this process."""
    return [
        new
        for number, group in enumerate(groups)
        for new in merge_files(files, [each.description for each in group], f"{stem}-{number}")
    ]


def compact(table: LakeTable, merge: Merge = merge_here, *, files_min: int = FILES_MIN) -> Compacted:
    """Write small files together; does nothing if another commit has replaced one of them meanwhile."""
    files = table.open_files()
    groups = choose_groups(table.list_files(), files.target_bytes, files_min)
    if not groups:
        return Compacted()
    added = merge(files, groups, f"compact-{secrets.token_hex(6)}")
    removed = [each.description for group in groups for each in group]
    if not table.commit_compaction([each.description for each in added], removed):
        log.info("%s was changed during its compaction, which is left for later", table)
        return Compacted()
    return Compacted(len(removed), len(added))


class Schedule:
    """When the tables of this process were last maintained."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last_s: dict[str, float] = {}

    def is_due(self, name: str, interval_s: float) -> bool:
        """Return whether an interval has passed since the last maintenance, or since the first question."""
        now_s = self._clock()
        with self._lock:
            return now_s - self._last_s.setdefault(name, now_s) >= interval_s

    def note(self, name: str) -> None:
        """Begin the next interval."""
        with self._lock:
            self._last_s[name] = self._clock()


SCHEDULE = Schedule()


def maintain(table: LakeTable, settings: SinkSettings, merge: Merge, schedule: Schedule = SCHEDULE) -> None:
    """Compact and expire a table if it is time. The rows are safe already, so an error is only logged."""
    if settings.compact_s is None:
        return
    name = str(table)
    try:
        is_due = schedule.is_due(name, settings.compact_s)
        groups = choose_groups(table.list_files(), table.open_files().target_bytes)
        if not is_due and sum(map(len, groups)) < _FILES_MAX:
            return
        compact(table, merge)
        if is_due:
            if settings.keep_s is not None:
                table.expire(settings.keep_s)
            schedule.note(name)
    except ConnectorError as error:
        log.warning("the maintenance of %s failed: %s", table, error)
