"""What was logged, whatever has been done to the formatters of the handlers."""

import logging

import pytest

_PLAIN = logging.Formatter()


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Return every message of the test with its traceback.

    `caplog.text` is written by the formatter of pytest's own handler, and pytest adds that handler to every logger
    that does not propagate. Loggers of pyspark, which do not, make any handler they get write JSON from then on.
    """
    return "\n".join(map(_PLAIN.format, caplog.records))
