"""What the processes of a run write down about it: who committed a batch, and which queries failed and why."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Commits(NamedTuple):
    """The batches of a flow that were committed, and by how many processes."""

    batch_count: int
    worker_count: int
    driver_count: int
    turn_count: int
    """How often a batch was committed by another worker than the one before it, under the same driver."""


class Evidence:
    """Lines in two files, to which drivers and their workers append."""

    def __init__(self, folder: Path) -> None:
        self._commits = folder / "commits.jsonl"
        self._failures = folder / "failures.jsonl"

    def note_commit(self, flow: str) -> None:
        """Say that this process has committed a batch. Its session is that of its driver."""
        _append(self._commits, [flow, os.getsid(0), os.getpid()])

    def note_failure(self, flow: str, error: str) -> None:
        """Say that a query has failed and is started again."""
        _append(self._failures, [flow, gist(error)])

    def commits(self, flow: str) -> Commits:
        found = [(driver, worker) for name, driver, worker in _lines(self._commits) if name == flow]
        turns = sum(a[0] == b[0] and a[1] != b[1] for a, b in pairwise(found))
        return Commits(len(found), len(set(found)), len({driver for driver, _ in found}), turns)

    def failures(self) -> Counter[str]:
        """How often the query of each flow failed."""
        return Counter(name for name, _ in _lines(self._failures))

    def reasons(self) -> Counter[str]:
        """Why queries failed."""
        return Counter(reason for _, reason in _lines(self._failures))


def gist(error: str) -> str:
    """The line of a long error that says what went wrong: the last one that names a Python exception.

    Ids are left out, so that the same reason is the same text in each query.
    """
    error = _ID.sub("<id>", error)
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "Fenced")) and ": " in line]
    return (named or lines or [""])[-1 if named else 0][:300]


def _append(path: Path, fields: list[Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(fields) + "\n")  # one short write, so lines of several processes do not mix


def _lines(path: Path) -> list[list[Any]]:
    """The whole lines; a process may be killed while it writes one."""
    text = path.read_text() if path.exists() else ""
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
