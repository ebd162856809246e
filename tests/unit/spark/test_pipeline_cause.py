"""The one line for what Spark says in many."""

from pathlib import Path

import pytest

from tailrace.spark.connector.topic.json_value import NOT_JSON
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.cause import explain_failure

FILE = Path("/pipes/site.py")

WORKER = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 in
stage 1.0 failed 1 times, most recent failure: PythonException:
Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 1, in main
    process()
  File "/pipes/site.py", line 11, in shout
    return text.upper()
           ^^^^^^^^^^
AttributeError: 'NoneType' object has no attribute 'upper'

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
Caused by: org.apache.spark.Other: unimportant
"""
SOURCE = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when
Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "/lib/tailrace/spark/topic_io.py", line 1, in look
    raise BrokerError("no broker")
tailrace.spark.error.BrokerError: topic a cannot be reached. Set option x
 SQLSTATE: 38000
"""
JAVA = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted. SQLSTATE: XXKST
Caused by: org.apache.spark.SparkException: Task failed
Caused by: java.io.IOException: No space left on device
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (WORKER, "site.py:11: AttributeError: 'NoneType' object has no attribute 'upper'"),
        (SOURCE, "topic a cannot be reached. Set option x"),
        (
            SOURCE.replace("BrokerError", "RowRefused").replace("topic a cannot be reached. Set option x", "no ({})"),
            'no ({}): to continue, set errors= of the flow to "skip" or {"to": TOPIC}',
        ),
        (
            JAVA,
            "IOException: No space left on device: "
            "a disk that holds checkpoints or Spark's temporary files is full; make room",
        ),
        ("[SOME.CONDITION] it is wrong. SQLSTATE: 42703;\n'Project ['x]\n+- Plan", "RuntimeError: it is wrong."),
        (
            "\n[PARSE] Syntax error. SQLSTATE: 42601 (line 2, pos 6)\n\n== SQL ==\nSELECT id\n  FRM source",
            "RuntimeError: Syntax error (line 2 of the query)",
        ),
        ("[COLUMN] There is no `x`. SQLSTATE: 42703; line 1 pos 0;\n'Project ['x]", "RuntimeError: There is no `x`"),
        (
            "[STREAMING_OUTPUT_MODE] Invalid streaming output mode: append. Not for aggregations. SQLSTATE: 42KDE",
            "RuntimeError: Invalid streaming output mode: append. Not for aggregations: "
            'give the rows a watermark (withWatermark), or write to a topic with mode="update"',
        ),
    ],
)
def test_the_cause_is_one_line(text: str, line: str) -> None:
    assert explain_failure(RuntimeError(text), FILE) == line


def test_the_value_of_a_record_brings_no_advice() -> None:
    text = f"Caused by: java.lang.X: [USER_RAISED_EXCEPTION] a-0 offset 7: {NOT_JSON} (No space left on device)"
    line = explain_failure(RuntimeError(text), FILE)
    assert line.startswith(f"a-0 offset 7: {NOT_JSON} (No space left on device): to continue, set errors= of the flow")
    assert "make room" not in line


def test_an_error_of_the_users_function_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("def f():\n    return {}['x']\n")
    namespace: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)  # noqa: S102 - it is written above
    with pytest.raises(KeyError) as raised:
        namespace["f"]()  # type: ignore[operator]
    assert explain_failure(raised.value, path) == "p.py:2: KeyError: 'x'"


def test_our_own_words_are_left_as_they_are() -> None:
    assert explain_failure(PipelineError("it is so"), FILE) == "it is so"


def test_a_line_has_an_end() -> None:
    assert len(explain_failure(RuntimeError("word " * 1000), FILE)) == 500
