"""A copier whose client's call never returns ends by itself, says so, and leaves a history that can be judged."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.clients.copier_history import CopierHistory, Line
from tests.clients.copier_line import GIVE_UP
from tests.clients.copier_run import CHECKOUT

pytestmark = pytest.mark.slow

STANDING_STILL = """
import threading
from tests.clients import copier_confluent
copier_confluent.STALL_S = 0.1
with copier_confluent.watched(7):
    threading.Event().wait()
"""


def test_a_copier_that_stands_still_ends_and_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STANDING_STILL], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == GIVE_UP, done.stderr
    assert done.stdout.split()[1:] == ["stalled", "7"]


def test_nobody_knows_what_became_of_offsets_whose_call_never_returned() -> None:
    lines = [Line.of(text) for text in ("1000 begin 7", "2000 offsets 7 0:50", "3000 stalled 7")]
    events = list(CopierHistory("copier", "id", "source", "target", "group").events(lines, {}))
    assert [(event["kind"], event["type"]) for event in events] == [
        ("begin", "invoke"),
        ("begin", "ok"),
        ("offsets", "invoke"),
    ]
