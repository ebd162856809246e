"""Frames that a broker should survive: sensible requests of every API and version, then mutated.

Everything is drawn from one `random.Random`, so that a seed and a number give the same frame.
"""

from __future__ import annotations

import struct
import uuid
from random import Random
from typing import Any

from tailrace.protocol.frame import encode_request
from tailrace.protocol.message import Field, Message
from tailrace.protocol.primitive import BOOLEAN, BYTES, FLOAT64, RECORDS, STRING, UUID, Array, Fixed, WireType
from tailrace.records.batch import HEADER_SIZE, write_crc
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.server import handlers  # noqa: F401 - fills the registry of APIs
from tailrace.server.api import APIS

CASES = [
    (served.request_type, version)
    for served in APIS.values()
    for version in range(served.version_min, served.version_max + 1)
]

TOPIC_FIELDS = {"topic", "topics", "topic_name", "topic_names", "resource_name", "name"}

OLD_FORM = "v3_and_below_"  # of AddPartitionsToTxn

NASTY_BYTES = (
    b"",
    b"\x00",
    b"\xff",
    b"\x80",
    b"\x7f\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff" * 10,
)
NASTY_TEXTS = ("", ".", "..", "../../x", "a/b", "\x00", "a\nb", "x" * 250, "x" * 32_767, "naïve €𝄞")
NASTY_NUMBERS = (0, 1, -1, -2, -3, 2, 3, 5, 127, 128, 255, 256, 2**15 - 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))


class World:
    """What exists on the broker, so that requests can be about it."""

    def __init__(self) -> None:
        self.topics: dict[str, uuid.UUID] = {}
        self.config_names = ("retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes", "no.such.option")
        self.now_ms = 0


class Corpus:
    """Draws frames, without their length."""

    def __init__(self, random: Random, world: World) -> None:
        self._random = random
        self._world = world

    def frame(self) -> tuple[type[Message], int, bytes]:
        """A request, its type and version; a few are left as they are, most are mutated."""
        cls, version = self._random.choice(CASES)
        sound = b"".join(encode_request(7, "fuzz", self._message(cls, version), version))[4:]
        if self._random.random() < 0.1:
            return cls, version, sound
        return cls, version, self.mutate(sound)

    def mutate(self, data: bytes) -> bytes:
        """Change a few places; the header's key and version mostly stay, for the body is where the code is."""
        random = self._random
        mutated = bytearray(data)
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            start = random.randrange(0 if random.random() < 0.05 else min(8, len(mutated)), len(mutated) + 1)
            size = random.choice((0, 1, 1, 1, 2, 4, 8, 40))
            match random.randrange(7):
                case 0:
                    mutated[start : start + size] = random.choice(NASTY_BYTES)
                case 1:
                    mutated[start : start + size] = random.randbytes(size)
                case 2:
                    del mutated[start:]
                case 3:
                    mutated[start:start] = mutated[start : start + size] * random.choice((1, 2, 50))
                case 4 if start < len(mutated):
                    mutated[start] ^= 1 << random.randrange(8)
                case 5 if start < len(mutated):
                    mutated[start] = (mutated[start] + random.choice((1, -1))) % 256
                case _:
                    mutated += random.randbytes(size)
            if not mutated:
                break
        return bytes(mutated)

    # --- sound messages

    def _message(self, cls: type[Message], version: int) -> Any:
        message = cls()
        for field in cls.SCHEMA.fields:
            if version in field.versions:
                setattr(message, field.name, self._field(field, version))
        return message

    def _field(self, field: Field, version: int) -> Any:
        random = self._random
        if version in field.nullable and random.random() < 0.2:
            return None
        if field.name == "validate_only":
            return random.random() < 0.9
        if field.name in ("max_wait_ms", "timeout_ms"):
            return random.choice((0, 1, 2**31 - 1))
        if isinstance(field.type, Fixed) and field.type not in (BOOLEAN, UUID, FLOAT64):
            return self._number(field.name, field.type)
        if field.type is STRING:
            return self._text(field.name)
        return self._value(field.type, version, field.name)

    def _value(self, kind: WireType | type[Message], version: int, name: str) -> Any:
        random = self._random
        if isinstance(kind, type):
            return self._message(kind, version)
        if isinstance(kind, Array):
            return [self._element(kind.element, version, name) for _ in range(random.choice((0, 1, 1, 1, 2, 5)))]
        if kind is BOOLEAN:
            return random.random() < 0.5
        if kind is UUID:
            known = list(self._world.topics.values())
            return random.choice(known) if known and random.random() < 0.8 else uuid.UUID(int=random.choice((0, 1, 99)))
        if kind is FLOAT64:
            return random.random()
        return self._records() if kind is RECORDS or kind is BYTES else self._text(name)

    def _element(self, kind: WireType | type[Message], version: int, name: str) -> Any:
        if isinstance(kind, Fixed) and kind not in (BOOLEAN, UUID, FLOAT64):
            return self._number(name, kind)
        return self._value(kind, version, name)

    def _number(self, name: str, kind: Fixed) -> int:
        bits = 8 * kind.size
        low, high = (0, (1 << bits) - 1) if kind.format.isupper() else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        known: dict[str, tuple[int, ...]] = {
            "acks": (-1, 0, 1),
            "partition": (0, 1),
            "partitions": (0, 1),
            "index": (0, 1),
            "partition_index": (0, 1),
            "partition_indexes": (0, 1),
            "num_partitions": (-1, 1, 2),
            "replication_factor": (-1, 1),
            "replica_id": (-1,),
            "resource_type": (2,),  # settings of the broker would change the rules for everybody
            "broker_ids": (1,),
            "fetch_offset": (0, 1, 5),
            "producer_id": (0, 1, 2, 5),
            "producer_epoch": (0, 0, 1, 2),
            "coordinator_epoch": (0, 1),
            "transaction_timeout_ms": (1, 60_000),
            "timestamp": (-1, -2, -3, 0, self._world.now_ms),
        }
        sensible = known.get(name.removeprefix(OLD_FORM))
        if sensible is not None and self._random.random() < 0.9:
            return self._random.choice(sensible)
        return min(high, max(low, self._random.choice(NASTY_NUMBERS)))

    def _text(self, name: str) -> str:
        random = self._random
        if random.random() < 0.1:
            return random.choice(NASTY_TEXTS)
        if name in ("client_software_name", "client_software_version", "value", "host"):
            return random.choice(("1", "delete", "compact", "a.b-c", "-1"))
        if name.endswith("transactional_id") or name == "transactional_ids":
            return random.choice(("fuzz-a", "fuzz-b"))
        if name in TOPIC_FIELDS and random.random() < 0.8:
            return random.choice(list(self._world.topics))
        return random.choice([*self._world.topics, *self._world.config_names, f"fuzz-new-{random.randrange(3)}"])

    def _records(self) -> bytes:
        """A batch, good in most cases; else bad inside and right in its checksum, so that it is looked into."""
        random = self._random
        codec = random.choice(list(Compression))
        producer_id = random.choice((-1, -1, -1, 0, 1, 5))
        builder = BatchBuilder(
            codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=random.choice((0, 1, 7)) if producer_id >= 0 else -1,
            is_transactional=producer_id >= 0 and random.random() < 0.5,
        )
        for _ in range(random.choice((1, 1, 2, 20))):
            key, value = random.choice((None, b"", b"key")), random.choice((None, b"", b"value" * 20))
            builder.append(self._world.now_ms, key, value, random.choice(((), (("name", b"x"), ("other", None)))))
        batch = bytearray(builder.build())
        if random.random() < 0.5:
            return bytes(batch)
        position = random.randrange(21, len(batch))
        batch[position : position + random.choice((1, 2, 4))] = random.choice(NASTY_BYTES)
        if random.random() < 0.3 and len(batch) > HEADER_SIZE:
            del batch[random.randrange(HEADER_SIZE, len(batch)) :]
        if len(batch) >= HEADER_SIZE:
            struct.pack_into(">i", batch, 8, len(batch) - 12)
            write_crc(batch, 0, len(batch))
        return bytes(batch)
