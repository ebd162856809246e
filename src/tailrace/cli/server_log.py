"""The log of the servers that the program runs."""

import logging
import sys


def configure_logging() -> None:
    """Log one line for each event on stderr, with time, level and message; lines of the audit log are JSON alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])  # for asyncio and other libraries
    # The servers do not depend on the root's handlers, which an imported library may have changed.
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log each forwarded request
    log = logging.getLogger("tailrace")
    log.setLevel(logging.INFO)
    log.handlers = [handler]
    log.propagate = False
    _configure_audit()


def _configure_audit() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("tailrace.audit")
    log.handlers = [handler]
    log.propagate = False
