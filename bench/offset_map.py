"""The cost of compaction for each record, in Python and in C: `python -m bench.offset_map` prints a table.

Batches in memory, CPU time of one thread, best of several rounds: first all keys are put into the map, then the batches
are filtered.
"""

from __future__ import annotations

import os
import random
import time

from tailrace.records.batch import HEADER_SIZE
from tailrace.records.builder import BatchBuilder
from tailrace.records.offset_map import IS_NATIVE, SLOT_SIZE, KeyMap, NativeOffsetMap, PythonOffsetMap

KEYS = 50_000
BATCH_BYTES = 100_000
ROUNDS = 5


def main() -> None:
    """Measure each map with small and large records."""
    maps: list[type[KeyMap]] = [PythonOffsetMap, *([NativeOffsetMap] if IS_NATIVE else [])]
    print(f"{'map':<18} {'value':>7} {'put µs':>8} {'filter µs':>10}")
    for value_bytes, record_count in ((100, 100_000), (1000, 50_000)):
        batches = _batches(value_bytes, record_count)
        for chosen in maps:
            best = min(_measure(chosen, batches) for _ in range(ROUNDS))
            print(f"{chosen.__name__:<18} {value_bytes:>5} B {best[0]:>8.2f} {best[1]:>10.2f}")


def _batches(value_bytes: int, record_count: int) -> list[tuple[memoryview, int]]:
    chooser = random.Random(1)
    per_batch = BATCH_BYTES // value_bytes
    batches = []
    for _ in range(record_count // per_batch):
        builder = BatchBuilder()
        for number in range(per_batch):
            builder.append(1000 + number, b"%016d" % chooser.randrange(KEYS), os.urandom(value_bytes))
        batches.append((memoryview(builder.build())[HEADER_SIZE:], per_batch))
    return batches


def _measure(make: type[KeyMap], batches: list[tuple[memoryview, int]]) -> tuple[float, float]:
    """Return the microseconds for each record, for putting and for filtering."""
    keys = make(SLOT_SIZE * KEYS * 2, 0.9)  # type: ignore[call-arg]
    began = time.process_time()
    for number, (body, count) in enumerate(batches):
        keys.put_records(body, count, number * count, 0)
    put = time.process_time()
    for number, (body, count) in enumerate(batches):
        keys.filter_records(body, count, number * count, 1000, 2**60, True)
    filtered = time.process_time()
    total = sum(count for _, count in batches)
    return (put - began) / total * 1e6, (filtered - put) / total * 1e6


if __name__ == "__main__":
    main()
