"""The log level of Tailrace's own code in a pipeline, in the driver and in workers.

Spark's Python workers do not configure logging, so Python prints warnings on stderr, which Spark passes on into the
pipeline's output. An environment variable carries the user's log level to the workers: they inherit it from the
JVM, and remote executors get it as a config of the session.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

# The prefix TAILRACE_ is reserved for configs of a broker, which may be started in this environment.
ENVIRONMENT = "PYSPARK_TAILRACE_LOG_LEVEL"
OFF = "off"

_LEVELS = {
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_ROOT = "tailrace"
_DATA_LOSS = "tailrace.spark.data_loss"


def levels(level: str) -> dict[str, int]:
    """Return the levels of our loggers for one of Spark's levels."""
    if level.lower() == OFF:
        # Logged errors are bugs with tracebacks; lost records are the user's concern at every level.
        return {_ROOT: logging.ERROR, _DATA_LOSS: logging.WARNING}
    return {_ROOT: _LEVELS.get(level.lower(), logging.WARNING), _DATA_LOSS: logging.NOTSET}


@contextmanager
def log_scope(level: str) -> Iterator[None]:
    """Set the log level in this process, and in workers of a session that starts during the block."""
    before = {name: logging.getLogger(name).level for name in levels(level)}
    environment = os.environ.get(ENVIRONMENT)
    handler = _apply(level)
    os.environ[ENVIRONMENT] = level
    try:
        yield
    finally:
        for name, number in before.items():
            logging.getLogger(name).setLevel(number)
        if handler is not None:
            logging.getLogger(_ROOT).removeHandler(handler)
        if environment is None:
            os.environ.pop(ENVIRONMENT, None)
        else:
            os.environ[ENVIRONMENT] = environment


def obey_environment() -> None:
    """Set the log level of this worker from the environment; without the variable, change nothing."""
    level = os.environ.get(ENVIRONMENT)
    if level is not None:
        _apply(level)


def _apply(level: str) -> logging.Handler | None:
    for name, number in levels(level).items():
        logging.getLogger(name).setLevel(number)
    logger = logging.getLogger(_ROOT)
    if level.lower() == OFF or logger.hasHandlers():
        return None
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger.addHandler(handler)
    return handler
