"""With one safeguard switched off at a time, the crash tests fail: they would notice its loss."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import pytest
from tests.faults.crash import Case, Failure, call_count, run_case

from tailrace.storage import batch_walk, checkpoint, log_dir, producer_handover, recovery
from tailrace.storage import log as log_module
from tailrace.storage.deletion import Deletions
from tailrace.storage.epoch_cache import EpochCache
from tailrace.storage.error import StorageError
from tailrace.storage.flush import Flush
from tailrace.storage.folder import Folder
from tailrace.storage.fs import FileSystem
from tailrace.storage.log import Log
from tailrace.storage.producer_snapshot import encode_snapshot, snapshot_path
from tailrace.storage.producer_state import ProducerState
from tailrace.storage.segment.file import SegmentFile
from tailrace.storage.segment.segment import Segment

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger = logging.getLogger("tailrace.storage")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


def flush_without_files(patch: Patch) -> None:
    patch.setattr(SegmentFile, "sync", lambda self: None)


def flush_without_names(patch: Patch) -> None:
    run = Flush.run
    patch.setattr(Flush, "run", lambda self: run(self._replace(has_new_names=False)))


def pass_over_failed_syncs(patch: Patch) -> None:
    def run(self: Flush) -> None:
        with suppress(StorageError):
            for segment in self.segments:
                segment.sync()

    patch.setattr(Flush, "run", run)
    patch.setattr(Folder, "fail", lambda self, error: None)


def accept_any_checksum(patch: Patch) -> None:
    patch.setattr(batch_walk, "check_crc", lambda *arguments: True)


def leave_torn_tails(patch: Patch) -> None:
    patch.setattr(Segment, "cut_tail", lambda self: None)


def leave_what_is_behind_a_gap(patch: Patch) -> None:
    patch.setattr(recovery._Opening, "_drop_from", lambda self, number: None)


def leave_checkpoints_above_the_end(patch: Patch) -> None:
    patch.setattr(log_dir.LogDir, "_add", lambda self, key, log: self.logs.__setitem__(key, log))


def delete_the_newest_first(patch: Patch) -> None:
    def move(self: Deletions, directory: str) -> None:
        while self._leaving.get(directory):
            segment, delay_ms = self._leaving[directory].pop()
            segment.move_away()
            self.add(directory, segment.deleted_paths(), delay_ms, segment)
        self._leaving.pop(directory, None)

    patch.setattr(Deletions, "move", move)


def flush_without_what_left(patch: Patch) -> None:
    run = Flush.run

    def run_without(self: Flush) -> None:
        run(self._replace(segments=tuple(segment for segment in self.segments if not segment.is_leaving)))

    patch.setattr(Flush, "run", run_without)


def write_down_the_end_of_what_is_flushed(patch: Patch) -> None:
    patch.setattr(Log, "checkpoint_offset", property(lambda self: self.recovery_point))


def keep_the_clean_mark(patch: Patch) -> None:
    patch.setattr(
        log_dir, "take_clean_mark", lambda fs, path: fs.exists(os.path.join(path, checkpoint.CLEAN_FILE_NAME))
    )


def keep_snapshots_of_what_was_cut(patch: Patch) -> None:
    for module in (log_module, producer_handover):
        patch.setattr(module, "remove_snapshots", lambda *arguments, **options: None)


def keep_epochs_of_what_was_cut(patch: Patch) -> None:
    patch.setattr(EpochCache, "truncate_end", lambda self, end_offset: None)


def write_checkpoints_in_place(patch: Patch) -> None:
    def write(fs: FileSystem, path: str, data: bytes) -> None:
        fs.write_file(path, data)

    patch.setattr(checkpoint, "write_atomically", write)


def begin_without_the_producers(patch: Patch) -> None:
    patch.setattr(log_module, "install_snapshot", lambda *arguments: None)


def write_snapshots_in_place(patch: Patch) -> None:
    def write(fs: FileSystem, directory: str, offset: int, state: ProducerState) -> None:
        fs.write_file(snapshot_path(directory, offset), encode_snapshot(state))

    patch.setattr(log_module, "write_snapshot", write)


ABLATIONS: list[tuple[Callable[[Patch], None], str]] = [
    (flush_without_files, "power"),
    (flush_without_names, "power"),
    (pass_over_failed_syncs, "eio"),
    (accept_any_checksum, "power"),
    (leave_torn_tails, "kill"),
    (leave_what_is_behind_a_gap, "power"),
    (leave_checkpoints_above_the_end, "kill"),
    (delete_the_newest_first, "power"),
    (flush_without_what_left, "power"),
    (write_down_the_end_of_what_is_flushed, "power"),
    (keep_the_clean_mark, "kill"),
    (keep_snapshots_of_what_was_cut, "kill"),
    (keep_epochs_of_what_was_cut, "kill"),
    (write_checkpoints_in_place, "power"),
    (begin_without_the_producers, "kill"),
    (write_snapshots_in_place, "power"),
]


LATE = (leave_checkpoints_above_the_end, write_snapshots_in_place)
"""Few of the cases notice their loss."""


@pytest.mark.parametrize(
    ("ablation", "fault"),
    [pytest.param(*pair, marks=[pytest.mark.slow] * (pair[0] in LATE)) for pair in ABLATIONS],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_loss_of_a_safeguard_is_noticed(
    ablation: Callable[[Patch], None], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list(range(1, call_count(0) + 1))
    Random(7).shuffle(calls)
    ablation(monkeypatch)
    assert any(breaks(Case(0, fault, call, 0, call)) for call in calls)


def breaks(case: Case) -> bool:
    try:
        run_case(case)
    except Failure:
        return True
    return False


def test_without_an_ablation_the_same_cases_hold() -> None:
    for fault in ("kill", "power", "eio"):
        for call in range(1, call_count(0), 100):
            run_case(Case(0, fault, call, 0, call))
