"""A comparison of ways to look up an offset in the index of a sealed segment: arrays, a mapping, single reads.

    python -m bench.index_lookup [--rounds 15] [--segments 10000]

An index of 2 MiB, which a full segment of small batches has, is searched when none of it is in memory and when all of
it is. The memory is that of the indexes of `--segments` sealed segments after one lookup in each, with indexes of
64 KiB. Prints a table and writes no file.
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tailrace.storage.fs import RealFileSystem
from tailrace.storage.offset_index import OffsetIndex, SealedOffsetIndex

INDEX_BYTES = 2 * 1024 * 1024
SMALL_BYTES = 64 * 1024
LOOKUPS = 20_000
LOG_BYTES = 2**31 - 1
Lookup = Callable[[int], int]


def _write(path: Path, size_bytes: int) -> None:
    index = OffsetIndex(0)
    for entry in range(size_bytes // 8):
        index.append(entry * 40 + 39, entry * 4100 + 1)
    path.write_bytes(index.encode())


def by_arrays(path: str) -> Lookup:
    """Read and decode the whole file, as Tailrace did before."""
    return OffsetIndex.decode(Path(path).read_bytes(), 0, LOG_BYTES).find


def by_mapping(path: str) -> Lookup:
    """Map the file and search the mapping, as Tailrace does."""
    data = RealFileSystem().map_file(path)
    if data is None:
        raise RuntimeError("no file")
    return SealedOffsetIndex(data, 0, LOG_BYTES).find


def by_reads(path: str) -> Lookup:
    """Keep the file open and read each entry that a search needs."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    count = os.fstat(descriptor).st_size // 8
    unpack = struct.Struct(">I").unpack

    def find(offset: int) -> int:
        low, high = 0, count
        while low < high:
            middle = (low + high) >> 1
            if unpack(os.pread(descriptor, 4, middle * 8))[0] <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1

    return find


WAYS = {"arrays": by_arrays, "mapping": by_mapping, "single reads": by_reads}


def _forget(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def _cold_ms(path: Path, way: Callable[[str], Lookup], rounds: int, random: Random) -> float:
    times = []
    for _ in range(rounds):
        _forget(path)
        offset = random.randrange(INDEX_BYTES // 8 * 40)
        started = time.perf_counter()
        way(str(path))(offset)
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def _warm_us(path: Path, way: Callable[[str], Lookup], random: Random) -> float:
    find = way(str(path))
    offsets = [random.randrange(INDEX_BYTES // 8 * 40) for _ in range(LOOKUPS)]
    times = []
    for _ in range(5):
        started = time.process_time()
        for offset in offsets:
            find(offset)
        times.append((time.process_time() - started) / LOOKUPS * 1e6)
    return min(times)


def _memory(folder: Path, name: str, count: int) -> str:
    """Return the memory of a process after lookups in `count` indexes, which share a few files."""
    program = f"""
import os, sys
from bench.index_lookup import WAYS
def anonymous():
    text = open("/proc/self/smaps_rollup").read()
    return int(text.split("Anonymous:")[1].split()[0]) / 1024
before = anonymous()
held = []
for number in range({count}):
    find = WAYS[{name!r}]({str(folder)!r} + "/" + str(number % 50))
    find(1000)
    held.append(find)
print(anonymous() - before, len(os.listdir("/proc/self/fd")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    memory_mib, descriptors = done.stdout.split()
    return f"{float(memory_mib):.0f} MiB, {descriptors} descriptors"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.index_lookup", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="cold lookups (default 15)")
    parser.add_argument("--segments", type=int, default=10_000, help="indexes in memory (default 10000)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tailrace-index-") as folder:
        path = Path(folder) / "index"
        _write(path, INDEX_BYTES)
        for number in range(50):
            _write(Path(folder) / str(number), SMALL_BYTES)
        print(
            f"| way | first lookup, cold | lookup, warm | {arguments.segments:,} indexes |\n| --- | ---: | ---: | --- |"
        )
        for name, way in WAYS.items():
            cold_ms, warm_us = _cold_ms(path, way, arguments.rounds, Random(1)), _warm_us(path, way, Random(2))
            memory = _memory(Path(folder), name, arguments.segments)
            print(f"| {name} | {cold_ms:.2f} ms | {warm_us:.1f} µs of CPU | {memory} |", flush=True)
    print(f"\npages of {mmap.PAGESIZE} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
