"""pyarrow is an extra: everything else works without it, and what needs it says so."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["pyarrow"] = None  # as if it were not installed
import runnel.client.reader, runnel.client.writer, runnel.records.arrow_fill, runnel.records.murmur2
import runnel.records.record, runnel.records.transaction_filter, runnel.records.validation, runnel.server.server
for name in ("arrow_decode", "arrow_encode", "arrow_partition", "arrow_schema"):
    try:
        __import__(f"runnel.records.{name}")
    except ImportError as error:
        print(error)
"""


def test_without_pyarrow() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    lines = result.stdout.splitlines()
    assert lines == ["columns need pyarrow, which the extra runnel[arrow] brings: pip install 'runnel[arrow]'"] * 4
