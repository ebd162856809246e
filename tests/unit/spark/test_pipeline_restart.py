"""Which failures of a flow can pass, and when it is started again."""

import sys
from pathlib import Path

import pytest

from tailrace.base.limits import (
    PIPELINE_HEALTHY_S,
    PIPELINE_RESTART_WAIT_S_MAX,
    PIPELINE_RESTARTS_MAX,
    PIPELINE_RESTARTS_ONCE_MAX,
)
from tailrace.spark.error import RegistryRefusal, RetriableRegistryError
from tailrace.spark.pipeline.cause import explain_failure
from tailrace.spark.pipeline.restart import Restarts, can_pass

FAILED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
TRACE = FAILED + "Job aborted.\nTraceback (most recent call last):\n  File 'x.py', line 1\n"


@pytest.mark.parametrize(
    "text",
    [
        FAILED + "Python worker failed to connect back. SQLSTATE: XXKST",
        FAILED + "Task 0 failed: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        FAILED + "[STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE] Streaming Runner initialization timed out.",
        TRACE + "tailrace.spark.error.RetriableBrokerError: lost the brokers\n\n\tat org.apache.spark.Runner\n",
        TRACE + "tailrace.spark.error.RetriableWriteError: another producer has taken the transactional id\n",
        TRACE + "tailrace.spark.error.RetriableConnectorError: redis://localhost:6379 does not answer\n",
        TRACE + "ValueError: of an attempt\n" + TRACE + "tailrace.spark.error.RetriableWriteError: not in time\n",
        TRACE + "py4j.protocol.Py4JJavaError: An error occurred while calling o93.save.\n"
        ": org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n",
        FAILED + "java.io.EOFException",
        FAILED + "Job aborted.\nCaused by: java.io.IOException: No space left on device",
        TRACE + "OSError: [Errno 28] No space left on device: '/checkpoints/offsets/7'\n",
    ],
)
def test_lost_workers_and_retriable_errors_pass(text: str) -> None:
    assert can_pass(RuntimeError(text))


@pytest.mark.parametrize(
    "text",
    [
        FAILED + "There are [1] sources in the checkpoint offsets and now there are [2] sources requested",
        FAILED + "[FAILED_READ_FILE] Could not read. Caused by: java.io.FileNotFoundException: gone",
        TRACE + "tailrace.spark.error.WriteError: rows were not written: 2 MiB is too large\n",
        TRACE + "tailrace.spark.error.DataLossError: records are gone\n",
        TRACE + "AttributeError: 'NoneType' object has no attribute 'upper'\n",
        TRACE + "ValueError: Python worker failed to connect back\n",
        TRACE + "mine.RetriableWriteError: not ours\n",
        TRACE + "py4j.protocol.Py4JJavaError: An error occurred while calling o93.save.\n: java.lang.Exception: full\n",
        TRACE + "tailrace.spark.error.RetriableWriteError: once\n" + TRACE + "ValueError: at last\n",
    ],
)
def test_everything_else_is_final(text: str) -> None:
    assert not can_pass(RuntimeError(text))


@pytest.mark.parametrize(
    "text",
    [
        FAILED + 'Job aborted: [USER_RAISED_EXCEPTION] logs-0 offset 7: not JSON ({"text": "No space left on device)',
        TRACE + "tailrace.spark.error.MalformedValue: logs-0 offset 7: not Avro (No space left on device)\n",
        TRACE + "tailrace.spark.error.RowRefused: table logs refuses a row ({'text': 'java.io.EOFException'})\n",
    ],
)
def test_a_value_is_not_taken_for_an_error(text: str) -> None:
    """A flow over the lines of a log was restarted, and told to make room, because of what stood in a wrong record."""
    assert not can_pass(RuntimeError(text))


def test_waits_double_up_to_a_bound_and_end() -> None:
    restarts = Restarts()
    waits = []
    for _ in range(PIPELINE_RESTARTS_MAX):
        restarts.start(0.0)
        waits.append(restarts.fail(10.0))
    assert waits[:5] == [1, 2, 4, 8, 16]
    assert set(waits[5:]) == {PIPELINE_RESTART_WAIT_S_MAX}
    assert restarts.due_at_s == 10.0 + PIPELINE_RESTART_WAIT_S_MAX
    assert restarts.fail(10.0) is None


def count_restarts(restarts: Restarts, most: int = 5_000) -> int:
    """Have a flow that never works fail until it is not restarted any more."""
    return next((count for count in range(most) if restarts.fail(0.0) is None), most)


def test_a_run_that_goes_on_outlives_an_outage_of_some_minutes() -> None:
    """A database that was away for three minutes ended the pipeline."""
    restarts, waited_s = Restarts(), 0.0
    while (wait_s := restarts.fail(waited_s)) is not None:
        waited_s += wait_s
    assert waited_s > 600
    assert count_restarts(Restarts(is_once=True)) == PIPELINE_RESTARTS_ONCE_MAX


@pytest.mark.parametrize("is_once", [False, True])
def test_the_number_of_restarts_can_be_chosen(*, is_once: bool) -> None:
    assert count_restarts(Restarts(is_once, 0)) == 0
    assert count_restarts(Restarts(is_once, 3)) == 3
    assert count_restarts(Restarts(is_once, sys.maxsize)) == 5_000  # the waits do not overflow


def test_the_count_starts_anew_only_where_the_flow_has_worked() -> None:
    """A broker that answers nothing lets a flow run for minutes before it fails, which is no work."""
    restarts = Restarts()
    for is_working, wait_s in ((False, 1), (False, 2), (True, 1), (False, 2)):
        restarts.start(0.0)
        if is_working:
            restarts.work(PIPELINE_HEALTHY_S)
        assert restarts.fail(10 * PIPELINE_HEALTHY_S) == wait_s


def test_a_flow_is_back_once() -> None:
    restarts = Restarts()
    restarts.start(0.0)
    restarts.work(1.0)
    assert restarts.back_after_s() is None
    restarts.fail(2.0)
    restarts.start(3.0)
    restarts.fail(4.0)
    restarts.start(6.0)
    assert restarts.back_after_s() is None
    restarts.work(9.0)
    assert restarts.back_after_s() == 7.0
    assert restarts.back_after_s() is None


def test_a_registry_that_does_not_answer_is_temporary_in_the_driver_and_in_workers() -> None:
    assert can_pass(RetriableRegistryError("no registry answers"))
    kind = f"{RetriableRegistryError.__module__}.{RetriableRegistryError.__qualname__}"
    assert can_pass(RuntimeError(f"Traceback (most recent call last):\n  File\n{kind}: no registry answers\n"))
    assert not can_pass(RegistryRefusal("Subject not found"))


class QueryFailure(Exception):
    """A failure as pyspark tells it, with the trace of its cause in Java."""

    def __init__(self, text: str, trace: str) -> None:
        super().__init__(text)
        self._cause = Exception()
        self._cause._stackTrace = trace  # type: ignore[attr-defined]


def test_a_process_of_the_driver_that_was_killed_can_pass() -> None:
    """Java's error for it has no message, and the flow ended with "(no cause message)"."""
    text = "Query [id = 1, runId = 2] terminated with exception: (no cause message)"
    killed = QueryFailure(text, "java.io.EOFException\n\tat java.base/java.io.DataInputStream.readFully\n")
    assert can_pass(killed)
    assert "java.io.EOFException" in explain_failure(killed, Path("flow.py"))
    assert not can_pass(QueryFailure(text, "java.lang.NullPointerException\n\tat org.apache.spark\n"))
    assert not can_pass(RuntimeError(text))
