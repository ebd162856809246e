"""What is done to a folder of logs: one list of steps that has everything, and any number of drawn ones."""

from __future__ import annotations

from random import Random

from tests.faults.crash_ledger import TRANSACTIONAL_ID
from tests.faults.crash_world import NO_PRODUCER, Step

from tailrace.records.compression import Compression
from tailrace.records.control import ControlType

# Script 0: each operation at least once, in an order in which much is unsynced at each.
STANDARD: list[Step] = [
    ("make", "plain"),
    ("append", "plain", 10, 2),
    ("append", "plain", 11, 1, Compression.GZIP),
    ("make", "safe"),
    ("append", "safe", 10, 2, Compression.LZ4),
    ("append", "plain", TRANSACTIONAL_ID, 2),
    ("append", "plain", NO_PRODUCER, 3, Compression.SNAPPY, -7),
    ("append", "plain", 10, 1, Compression.ZSTD),
    ("tick", 5),
    ("append", "plain", 11, 2),
    ("end_transaction", "plain", ControlType.ABORT),
    ("flush_sealed", "plain"),
    ("append", "plain", TRANSACTIONAL_ID, 1),
    ("elect", "plain"),
    ("append", "plain", 10, 4),
    ("flush", "plain"),
    ("checkpoint",),
    ("append", "plain", 11, 3),
    ("roll", "plain"),
    ("append", "plain", 11, 1),
    ("flush", "plain"),
    ("append", "safe", 12, 4, Compression.NONE, 3),
    ("elect", "safe"),
    ("append", "safe", 10, 4),
    ("truncate", "plain", 0.9),
    ("elect", "plain"),
    ("append", "plain", 10, 3),
    ("end_transaction", "plain", ControlType.COMMIT),
    ("append", "plain", NO_PRODUCER, 4),
    ("append", "plain", 11, 4),
    ("make", "other"),
    # A snapshot, an epoch and a recovery point that are cut away, and records in their place.
    ("append", "other", 11, 3),
    ("append", "other", 11, 2),
    ("roll", "other"),
    ("elect", "other"),
    ("append", "other", 10, 4),
    ("flush", "other"),
    ("checkpoint",),
    ("truncate", "other", 0.5),
    ("append", "other", 10, 4),
    ("append", "other", 10, 2),
    ("truncate", "other", 0.9),
    # A start of the log that is cut away.
    ("append", "other", 12, 1),
    ("delete_records", "other", 0.9),
    ("truncate", "other", 0.4),
    ("append", "other", 10, 1),
    ("delete_records", "plain", 0.3),
    ("append", "plain", 10, 5),
    ("append", "plain", 10, 5),
    ("flush_slowly", "plain"),
    ("retain", "plain", 900),
    ("append", "safe", 12, 5),
    # Segments that have left the log, some not flushed, while their files are as they were.
    ("append", "other", 10, 6),
    ("append", "other", 10, 6),
    ("roll", "other"),
    ("append", "other", 10, 6),
    ("roll", "other"),
    ("append", "other", 11, 1),
    ("retain_slowly", "other", 100),
    ("append", "other", TRANSACTIONAL_ID, 2),
    ("append", "other", 11, 5),
    ("end_transaction", "other", ControlType.ABORT),
    ("flush", "other"),
    ("checkpoint",),
    # A segment that is sealed when all of its batches are flushed, but not its index files.
    ("roll", "other"),
    ("append", "other", 11, 5),
    ("append", "other", 11, 5),
    ("retain_slowly", "other", 0),
    ("tick", 20),
    ("sweep",),
    ("append", "other", 11, 5),
    ("roll", "other"),
    ("append", "other", 11, 5),
    ("retain_slowly", "other", 100),
    ("sweep",),
    ("tick", 20),
    ("sweep",),
    ("truncate_fully", "other", -4),
    ("append", "other", 11, 2),
    ("delete", "other"),
    ("append", "plain", 11, 1),
    ("reopen",),
    ("purge",),
    ("make", "other"),
    ("append", "plain", 10, 2),
    ("append", "other", 11, 2),
    ("roll", "plain"),
    ("retain", "safe", 0),
    ("append", "safe", 10, 1),
    ("truncate_fully", "plain", -2),
    ("append", "plain", 11, 2),
    ("append", "plain", 11, 2),
    # Producers that only the first snapshot knows: a log is cut to its start, another stops without records.
    ("truncate", "plain", 0.0),
    ("append", "plain", 10, 1),
    ("truncate_fully", "safe", 3),
    ("reopen",),
    ("append", "safe", 11, 1),
]


# Script 1: compaction between everything that moves segments.
COMPACTING: list[Step] = [
    ("make", "keyed"),
    ("append", "keyed", 10, 3),
    ("append", "keyed", 11, 4, Compression.GZIP),
    ("append", "keyed", TRANSACTIONAL_ID, 2),
    ("append", "keyed", 10, 3),
    ("end_transaction", "keyed", ControlType.ABORT),
    ("append", "keyed", 10, 4, Compression.LZ4),
    ("compact", "keyed"),
    ("append", "keyed", 11, 3),
    ("elect", "keyed"),
    ("append", "keyed", TRANSACTIONAL_ID, 2),
    ("append", "keyed", 10, 5, Compression.ZSTD, 2),
    ("end_transaction", "keyed", ControlType.COMMIT),
    ("append", "keyed", NO_PRODUCER, 2),
    ("compact", "keyed"),
    ("append", "keyed", 10, 3),
    ("checkpoint",),
    ("truncate", "keyed", 0.8),
    ("append", "keyed", 11, 4),
    ("compact", "keyed"),
    # Behind a segment with gaps that was cut, several that are not flushed.
    ("truncate", "keyed", 0.5),
    ("append", "keyed", 11, 4),
    ("append", "keyed", 11, 4),
    ("append", "keyed", 10, 4),
    ("append", "keyed", 10, 4),
    ("append", "keyed", 11, 4),
    ("elect", "keyed"),
    ("append", "keyed", 10, 4),
    ("compact", "keyed"),
    ("truncate", "keyed", 0.4),
    ("append", "keyed", 10, 3),
    ("reopen",),
    ("append", "keyed", 11, 3),
    ("compact", "keyed"),
    ("append", "keyed", 10, 1),
]


def script(number: int) -> list[Step]:
    """The steps of a script; from 2 on they are drawn."""
    if number < 2:
        return (STANDARD, COMPACTING)[number]
    random = Random(f"script {number}")
    steps: list[Step] = [("make", "plain"), ("append", "plain", 10, 1), ("make", "keyed"), ("make", "safe")]
    return steps + [_draw(random) for _ in range(random.randrange(20, 50))]


def _draw(random: Random) -> Step:
    name = random.choice(("plain", "plain", "keyed", "safe", "other"))
    weights = {
        "append": 45,
        "flush": 6,
        "flush_sealed": 3,
        "flush_slowly": 2,
        "checkpoint": 5,
        "elect": 4,
        "roll": 4,
        "tick": 4,
        "end_transaction": 4,
        "delete_records": 4,
        "retain": 4,
        "retain_slowly": 4,
        "sweep": 6,
        "truncate": 6,
        "truncate_fully": 2,
        "reopen": 3,
        "make": 3,
        "delete": 1,
        "compact": 4,
        "purge": 2,
    }
    kind = random.choices(list(weights), list(weights.values()))[0]
    match kind:
        case "append":
            producer_id = random.choice((10, 11, TRANSACTIONAL_ID, NO_PRODUCER))
            return (
                kind,
                name,
                producer_id,
                random.randint(1, 6),
                random.choice(list(Compression)),
                random.randint(-5, 5),
            )
        case "checkpoint" | "reopen" | "purge" | "sweep":
            return (kind,)
        case "tick":
            return kind, random.randint(1, 20)
        case "end_transaction":
            return kind, name, random.choice((ControlType.ABORT, ControlType.COMMIT))
        case "delete_records" | "truncate":
            return kind, name, random.random()
        case "retain" | "retain_slowly":
            return kind, name, random.choice((0, 500, 1500))
        case "truncate_fully":
            return kind, name, random.randint(-8, 8)
    return kind, name
