"""How much of the log of Runnel's own code a pipeline shows on stderr.

Nothing configures logging in Spark's Python workers, and Python prints warnings that no handler takes.
Spark passes the stderr of its workers on, so they would stand between the lines of a pipeline, where
the pipeline itself says what matters. A variable of the environment tells workers what the user
asked for; they inherit it from the JVM, and executors elsewhere get it as a setting of the session.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

# Names that begin with RUNNEL_ are options of a broker, and one that is started in this environment refuses others.
ENVIRONMENT = "PYSPARK_RUNNEL_LOG_LEVEL"
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
_ROOT = "runnel"
_DATA_LOSS = "runnel.spark.data_loss"


def levels(level: str) -> dict[str, int]:
    """The levels of our loggers for a level as Spark names them."""
    if level.lower() == OFF:
        # Errors in the log are bugs, with their tracebacks, and records that are gone are for the user to know.
        return {_ROOT: logging.ERROR, _DATA_LOSS: logging.WARNING}
    return {_ROOT: _LEVELS.get(level.lower(), logging.WARNING), _DATA_LOSS: logging.NOTSET}


@contextmanager
def log_scope(level: str) -> Iterator[None]:
    """Log at a level in this process and in the workers of a session that starts while the block runs."""
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
    """Log in this worker as the environment says; without the variable, leave logging alone."""
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
