"""The log of `tailrace start`: what a line looks like."""

import subprocess
import sys

PROGRAM = """
import logging
from tailrace.cli.server_log import configure_logging
configure_logging()
logging.getLogger("tailrace.server").info("listening")
logging.getLogger("tailrace.audit").info('{"event": "denial"}')
"""


def test_a_line_has_a_time_and_a_level_and_an_audit_line_is_json() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    event, audit = done.stderr.splitlines()
    assert event.endswith(" INFO listening")
    assert audit == '{"event": "denial"}'
