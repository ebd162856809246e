"""pyarrow is an extra: everything else works without it, and what needs it says so."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["pyarrow"] = None  # as if it were not installed
import tailrace.client.fetch.reader, tailrace.client.produce.writer, tailrace.records.arrow.fill
import tailrace.records.murmur2, tailrace.records.record
import tailrace.records.transaction_filter, tailrace.records.validation, tailrace.server.server
for name in ("arrow.decode", "arrow.encode", "arrow.partition", "arrow.schema"):
    try:
        __import__(f"tailrace.records.{name}")
    except ImportError as error:
        print(error)
"""


def test_without_pyarrow() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    lines = result.stdout.splitlines()
    assert lines == ["Arrow columns need pyarrow: pip install 'tailrace[arrow]'"] * 4
