"""The lock of a pipeline's checkpoints: two runs with the same ones would each undo what the other has noted."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.spark.error import PipelineError

LOCK = "running.lock"


@contextmanager
def run_lock(checkpoints: Path) -> Iterator[None]:
    """Hold the lock during the block; raises `PipelineError` if another process has it. It ends with its process."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    with (checkpoints / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _running_error(checkpoints, _read_process_id(checkpoints)) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def check_not_running(checkpoints: Path) -> None:
    """Raise `PipelineError` if another process runs a pipeline with these checkpoints."""
    if (process_id := find_runner(checkpoints)) is not None:
        raise _running_error(checkpoints, process_id)


def _running_error(checkpoints: Path, process_id: int | None) -> PipelineError:
    runner = "another process" if process_id is None else f"process {process_id}"
    return PipelineError(f"the pipeline is running in {runner}, with its checkpoints in {checkpoints}")


def find_runner(checkpoints: Path) -> int | None:
    """Return the id of the process that runs a pipeline with these checkpoints; None if none does."""
    try:
        with (checkpoints / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return _read_process_id(checkpoints)
    return None


def _read_process_id(checkpoints: Path) -> int | None:
    text = (checkpoints / LOCK).read_text()
    return int(text) if text.isdigit() else None
