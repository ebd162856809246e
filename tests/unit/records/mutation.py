"""Batches of random records, and changes to them that a decoder must not trip over."""

import random

from tests.unit.records.arrow.arrow_twin import build_batch

from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, write_crc
from tailrace.records.compression import Compression

TELLING = (0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF)


def build(rng: random.Random, codec: Compression) -> bytearray:
    records = []
    for _ in range(rng.randrange(1, 8)):
        key = rng.choice([None, b"", b"key", rng.randbytes(20)])
        value = rng.choice([None, b"value" * rng.randrange(50), rng.randbytes(rng.randrange(300))])
        headers = [("header", rng.choice([None, b"x"])), ("ü", b"")][: rng.randrange(3)]
        records.append((rng.randrange(-1, 10**13), key, value, headers))
    is_transactional = rng.random() < 0.2
    return bytearray(
        build_batch(records, codec, is_transactional=is_transactional, producer_id=3 if is_transactional else -1)
    )


def mutate(rng: random.Random, batch: bytearray) -> None:
    """One change: a bit, a telling byte, a cut, an inserted piece."""
    start = rng.choice([0, HEADER_SIZE])
    if len(batch) <= start:
        return
    place = rng.randrange(start, len(batch))
    match rng.randrange(5):
        case 0:
            batch[place] ^= 1 << rng.randrange(8)
        case 1:
            batch[place] = rng.choice(TELLING)
        case 2:
            del batch[place:]
        case 3:
            batch[place:place] = batch[place : place + rng.randrange(1, 30)]
        case _:
            del batch[place : place + rng.randrange(1, 10)]


def repair(batch: bytearray) -> None:
    """Make length and checksum true, so that the change is met further inside."""
    if len(batch) >= HEADER_SIZE:
        batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
        write_crc(batch, 0, len(batch))
