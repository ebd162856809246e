"""The speed of the two record walks, compared with the checksum and the codecs: `python -m bench.record_walk`.

Each figure is the best of several rounds over one batch of about 1 MB in memory, in CPU time of one thread, so that
other work on the machine matters little. Sizes are those of the uncompressed records.
"""

import platform
import random
import time
from collections.abc import Callable

from tailrace.base.sentinel import INT64_MAX, INT64_MIN
from tailrace.records.batch import HEADER_SIZE, check_crc, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression, compress, decompress
from tailrace.records.walk import WalkFunction, walk_records_python

BATCH_SIZE_BYTES = 1_000_000
VALUE_SIZES = (100, 1_000)
ROUNDS = 40
ROUND_MIN_S = 0.02


def build(value_size: int) -> bytes:
    """Return a batch of records with small keys and values of hexadecimal digits, which compress about twofold."""
    rng = random.Random(value_size)
    builder = BatchBuilder(size_bytes_max=BATCH_SIZE_BYTES)
    index = 0
    while builder.append(index, b"key-%08d" % index, rng.randbytes(value_size // 2).hex().encode()):
        index += 1
    return builder.build()


def best_seconds(run: Callable[[], object]) -> float:
    """Return the shortest CPU time of one call, over rounds long enough for the clock."""
    run()
    best = float("inf")
    for _ in range(ROUNDS):
        calls = 0
        start = time.thread_time()
        while (elapsed := time.thread_time() - start) < ROUND_MIN_S:
            run()
            calls += 1
        best = min(best, elapsed / calls)
    return best


def walks() -> dict[str, WalkFunction]:
    """Return the walks that are available on this machine."""
    found: dict[str, WalkFunction] = {"walk, Python": walk_records_python}
    try:
        from tailrace.records._native import walk_records
    except ImportError:
        print("the native module is not built: python setup.py build_ext --inplace")
    else:
        found["walk, native"] = walk_records
    return found


def measure(value_size: int) -> list[tuple[str, float, float]]:
    """Return rows of name, MB/s and millions of records per second for one record size."""
    batch = build(value_size)
    header = read_header(batch)
    body = batch[HEADER_SIZE:]
    runs: dict[str, Callable[[], object]] = {"checksum": lambda: check_crc(batch, 0, header)}
    for name, walk in walks().items():
        arguments = (body, 0, len(body), header.record_count, header.base_timestamp, INT64_MIN, INT64_MAX)
        runs[name] = lambda walk=walk, arguments=arguments: walk(*arguments)  # type: ignore[misc]
    for codec in list(Compression)[1:]:
        packed = compress(codec, body)
        name = f"decompress {codec.config_name}, {len(body) / len(packed):.1f}x"
        runs[name] = lambda codec=codec, packed=packed: decompress(codec, packed, len(body))  # type: ignore[misc]
    rows = []
    for name, run in runs.items():
        seconds = best_seconds(run)
        rows.append((name, len(body) / seconds / 1e6, header.record_count / seconds / 1e6))
    return rows


def main() -> None:
    """Print a table for each record size."""
    print(
        f"Python {platform.python_version()} on {platform.machine()}; best of {ROUNDS} rounds; CPU time of one thread"
    )
    for value_size in VALUE_SIZES:
        print(f"\n| values of {value_size} B | MB/s | M records/s |\n| --- | ---: | ---: |")
        for name, megabytes, records in measure(value_size):
            print(f"| {name} | {megabytes:,.0f} | {records:.2f} |")


if __name__ == "__main__":
    main()
