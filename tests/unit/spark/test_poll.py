"""The thread that looks for new rows."""

import threading
from pathlib import Path

from tailrace.spark.connector.poll import Poller, start_poller, stop_poller


def test_what_is_found_stands_in_the_file_also_after_a_failure(tmp_path: Path) -> None:
    looked = threading.Semaphore(0)
    answers = iter(["2", None, "3"])

    def find() -> str:
        answer = next(answers, "3")
        looked.release()
        if answer is None:
            raise OSError("the database is away")
        return answer

    path = tmp_path / "checkpoint" / "high"
    poller = Poller("numbers", path, find, 0.001)
    start_poller(poller, "1")
    try:
        for _ in range(5):
            assert looked.acquire(timeout=30)
        assert path.read_text() == "3"
    finally:
        stop_poller("numbers")
    stop_poller("numbers")


def test_a_second_start_replaces_the_first(tmp_path: Path) -> None:
    first = Poller("numbers", tmp_path / "high", lambda: "1", 3600)
    start_poller(first, "0")
    start_poller(Poller("numbers", tmp_path / "high", lambda: "2", 3600), "9")
    try:
        assert first._thread is not None
        first._thread.join(timeout=30)
        assert not first._thread.is_alive()
        assert (tmp_path / "high").read_text() == "9"
    finally:
        stop_poller("numbers")
