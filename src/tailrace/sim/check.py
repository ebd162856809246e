"""The history checker: `python -m tailrace.sim.check FILE ...` prints every anomaly in a history."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tailrace.sim.checkers.care_loss import (
    find_altered_records,
    find_returned_records,
    find_stalled_scans,
    find_swept_records,
)
from tailrace.sim.checkers.commit import find_commits_ahead
from tailrace.sim.checkers.config import find_lost_configs
from tailrace.sim.checkers.deletion import find_excessive_deletions, find_falling_log_starts, find_undeleted
from tailrace.sim.checkers.exactly_once import find_doubled, find_missed
from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.group_offset import find_dirty_offsets, find_group_regressions
from tailrace.sim.checkers.leader_epoch import find_falling_epochs
from tailrace.sim.checkers.log_start import find_falling_starts, find_greedy_retention, find_unasked_starts
from tailrace.sim.checkers.loss import find_aborted_reads, find_lost_writes, find_phantoms, find_unseen
from tailrace.sim.checkers.owner import find_two_owners
from tailrace.sim.checkers.place import find_duplicates, find_inconsistent_offsets, find_misplaced
from tailrace.sim.checkers.policy import find_uncalled_care
from tailrace.sim.checkers.sequence import find_nonmonotonic_polls, find_nonmonotonic_sends, find_poll_skips
from tailrace.sim.checkers.timestamp import find_wrong_lookups
from tailrace.sim.checkers.transaction_fence import find_commits_after_fencing, find_writes_after_fencing
from tailrace.sim.checkers.transaction_read import find_dirty_reads, find_late_ends
from tailrace.sim.checkers.transaction_whole import find_hanging_transactions, find_torn_offsets, find_torn_transactions
from tailrace.sim.history import BadHistory, History, read_history

Checker = Callable[[History], Iterator[Finding]]

LOG_CHECKERS: tuple[Checker, ...] = (
    find_inconsistent_offsets,
    find_duplicates,
    find_misplaced,
    find_lost_writes,
    find_unseen,
    find_aborted_reads,
    find_phantoms,
    find_nonmonotonic_sends,
    find_nonmonotonic_polls,
    find_poll_skips,
    find_falling_epochs,
    find_group_regressions,
    find_lost_configs,
    find_excessive_deletions,
    find_falling_log_starts,
    find_undeleted,
    find_two_owners,
    find_commits_ahead,
)

TRANSACTION_CHECKERS: tuple[Checker, ...] = (
    find_dirty_offsets,
    find_dirty_reads,
    find_late_ends,
    find_torn_transactions,
    find_torn_offsets,
    find_hanging_transactions,
    find_commits_after_fencing,
    find_writes_after_fencing,
    find_doubled,
    find_missed,
)

CARE_CHECKERS: tuple[Checker, ...] = (
    find_swept_records,
    find_returned_records,
    find_altered_records,
    find_stalled_scans,
    find_falling_starts,
    find_unasked_starts,
    find_greedy_retention,
    find_wrong_lookups,
    find_uncalled_care,
)

CHECKERS = (*LOG_CHECKERS, *TRANSACTION_CHECKERS, *CARE_CHECKERS)


def check(history: History) -> list[Finding]:
    """Return all anomalies of a history."""
    return [finding for checker in CHECKERS for finding in checker(history)]


def summary(history: History) -> str:
    """Return the number of operations by kind and outcome."""
    counts: dict[str, int] = {}
    for operation in history.operations:
        name = f"{operation.kind} {operation.outcome}"
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def main(arguments: list[str]) -> int:
    """Check the files of one history. Return 1 if there are anomalies, 2 if the files are not a history."""
    parser = argparse.ArgumentParser(prog="python -m tailrace.sim.check", description=__doc__)
    parser.add_argument("file", nargs="+", type=Path, help="JSON lines; several files are merged into one history")
    try:
        history = read_history(*parser.parse_args(arguments).file)
    except (BadHistory, OSError, ValueError) as error:
        print(f"not a history: {error}", file=sys.stderr)
        return 2
    findings = check(history)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} anomalies in: {summary(history)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
