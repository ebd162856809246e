"""Which failures of a flow can pass, and when it is started again."""

import pytest

from runnel.base.limits import (
    PIPELINE_HEALTHY_S,
    PIPELINE_RESTART_WAIT_S_MAX,
    PIPELINE_RESTARTS_MAX,
)
from runnel.spark.pipeline.restart import Restarts, can_pass

FAILED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
TRACE = FAILED + "Job aborted.\nTraceback (most recent call last):\n  File 'x.py', line 1\n"


@pytest.mark.parametrize(
    "text",
    [
        FAILED + "Python worker failed to connect back. SQLSTATE: XXKST",
        FAILED + "Task 0 failed: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        FAILED + "[STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE] Streaming Runner initialization timed out.",
        TRACE + "runnel.spark.error.RetriableBrokerError: lost the brokers\n\n\tat org.apache.spark.Runner\n",
        TRACE + "runnel.spark.error.RetriableWriteError: another producer has taken the transactional id\n",
        TRACE + "ValueError: of an attempt\n" + TRACE + "runnel.spark.error.RetriableWriteError: not in time\n",
        TRACE + "py4j.protocol.Py4JJavaError: An error occurred while calling o93.save.\n"
        ": org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n",
        FAILED + "java.io.EOFException",
    ],
)
def test_lost_workers_and_retriable_errors_pass(text: str) -> None:
    assert can_pass(RuntimeError(text))


@pytest.mark.parametrize(
    "text",
    [
        FAILED + "There are [1] sources in the checkpoint offsets and now there are [2] sources requested",
        FAILED + "[FAILED_READ_FILE] Could not read. Caused by: java.io.FileNotFoundException: gone",
        TRACE + "runnel.spark.error.WriteError: rows were not written: 2 MiB is too large\n",
        TRACE + "runnel.spark.error.DataLossError: records are gone\n",
        TRACE + "AttributeError: 'NoneType' object has no attribute 'upper'\n",
        TRACE + "ValueError: Python worker failed to connect back\n",
        TRACE + "mine.RetriableWriteError: not ours\n",
        TRACE + "py4j.protocol.Py4JJavaError: An error occurred while calling o93.save.\n: java.lang.Exception: full\n",
        TRACE + "runnel.spark.error.RetriableWriteError: once\n" + TRACE + "ValueError: at last\n",
    ],
)
def test_everything_else_is_final(text: str) -> None:
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
