"""What was logged, whatever has been done to the formatters of the handlers, and whatever else the process does."""

import logging

import pytest

_PLAIN = logging.Formatter()
_BROKERS = ("tailrace-broker", "tailrace-registry", "tailrace-secure")
"""The threads of `testing.Broker`, `testing.Registry` and the tests' broker with security."""


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Return every message of the test with its traceback.

    `caplog.text` is written by the formatter of pytest's own handler, and pytest adds that handler to every logger
    that does not propagate. Loggers of pyspark, which do not, make any handler they get write JSON from then on.
    """
    return "\n".join(map(_PLAIN.format, caplog.records))


def own_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of a test that starts none of these brokers: those of other tests may log meanwhile."""
    return [record for record in caplog.records if record.threadName not in _BROKERS]
