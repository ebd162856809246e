"""The last report of an application: can its failure pass?"""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]

from tailrace.connect.application import _explain
from tailrace.connect.job import Event
from tailrace.spark.pipeline.error import FlowError


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as found:
        return found


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."), Event.LOST),
        (Py4JNetworkError("Answer from Java side is empty"), Event.LOST),
        (raised(Py4JError("calling o1.isActive"), Py4JNetworkError("empty")), Event.LOST),
        (raised(FlowError("lines", "gone"), ConnectionRefusedError("refused")), Event.LOST),
        (FlowError("lines", "the file is wrong"), Event.FAILED),
        (ValueError("no number"), Event.FAILED),
    ],
)
def test_a_java_that_was_killed_is_started_again(error: Exception, event: Event) -> None:
    """A connector whose Java was killed while Spark was starting stayed FAILED for good."""
    assert _explain(error).event is event
