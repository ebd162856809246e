"""Random numbers of our own."""

import random
import subprocess
import sys

from tailrace.client.backoff import Backoff
from tailrace.client.produce.core import StickyPartition


def numbers() -> list[object]:
    sticky = StickyPartition(1)
    return [*(Backoff(100, 1000).wait_s(3) for _ in range(5)), *(sticky.choose(range(1000), 2) for _ in range(5))]


def test_a_program_that_seeds_the_module_does_not_make_clients_equal() -> None:
    random.seed(7)
    first = numbers()
    random.seed(7)
    assert first != numbers()
    state = random.getstate()
    numbers()
    assert random.getstate() == state


FORK = """
import os
from tailrace.base import chance

chance.generator().seed(7)
if os.fork():
    os.wait()
print(chance.uniform(0, 1))
"""


def test_a_forked_process_has_numbers_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True, timeout=60)
    theirs, ours = done.stdout.split()
    assert theirs != ours
