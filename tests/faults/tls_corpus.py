"""TLS records that a broker should survive: those of real handshakes, mutated by the structure of records."""

from __future__ import annotations

import contextlib
import ssl
import struct
from collections.abc import Iterator
from random import Random

from tests.faults.frame_corpus import NASTY_BYTES

_HEADER = struct.Struct(">BHH")
_TYPES = (20, 21, 22, 23, 24, 0, 255)
_VERSIONS = (0x0301, 0x0303, 0x0304, 0x0300, 0x0002, 0xFFFF)


class Handshake:
    """Both ends of TLS in memory; without the context of a client, the broker's end alone."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext | None) -> None:
        self.to_server, self.to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(self.to_server, self.to_client, server_side=True)
        if client is None:
            return
        self._from_client = ssl.MemoryBIO()
        self.client = client.wrap_bio(self.to_client, self._from_client, server_hostname="localhost")

    def client_flight(self) -> bytes:
        """Let the client go on, and return what it sends."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.client.do_handshake()
        return self._from_client.read()

    def client_data(self, data: bytes) -> bytes:
        """Return the records with data of a client whose handshake is complete."""
        self.client.write(data)
        return self._from_client.read()

    def receive(self, data: bytes) -> bool:
        """Let the server go on with these bytes; return False if it has refused them, as a broker does."""
        self.to_server.write(data)
        try:
            self.server.do_handshake()
            while self.server.read(1 << 16):
                pass
        except ssl.SSLWantReadError:
            return True
        except ssl.SSLError:
            return False
        return True


class TlsCorpus:
    """Draws mutations of records."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def mutate(self, data: bytes) -> bytes:
        """Change records: their headers, their number and order, their content, or the bytes between."""
        random = self._random
        records = list(split_records(data))
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            index = random.randrange(len(records)) if records else 0
            match random.randrange(7):
                case 0 if records:
                    records[index] = self._header(records[index])
                case 1 if records:
                    records.insert(index, random.choice(records))
                case 2 if records:
                    del records[index]
                case 3 if records and len(records[index]) > _HEADER.size + 1:
                    records[index : index + 1] = self._split(records[index])
                case 4:
                    records.insert(index, self._alert())
                case _ if records:
                    records[index] = self._content(records[index])
        mutated = b"".join(records)
        return mutated[: random.randrange(len(mutated) + 1)] if random.random() < 0.1 else mutated

    def _header(self, record: bytes) -> bytes:
        random = self._random
        kind, version, size = _HEADER.unpack_from(record)
        match random.randrange(3):
            case 0:
                kind = random.choice(_TYPES)
            case 1:
                version = random.choice(_VERSIONS)
            case _:
                size = random.choice((0, 1, size - 1, size + 1, 16384, 16641, 18433, 65535)) & 0xFFFF
        return _HEADER.pack(kind, version, size) + record[_HEADER.size :]

    def _content(self, record: bytes) -> bytes:
        """Change bytes and correct the length of the record, and of the handshake message that begins in it."""
        random = self._random
        kind, version, _ = _HEADER.unpack_from(record)
        content = bytearray(record[_HEADER.size :])
        start, size = random.randrange(len(content) + 1), random.choice((0, 1, 1, 2, 4, 32))
        if random.random() < 0.5:
            content[start : start + size] = random.choice(NASTY_BYTES)
        elif random.random() < 0.5:
            content[start:start] = random.randbytes(size)
        elif start < len(content):
            content[start] ^= 1 << random.randrange(8)
        if kind == 22 and len(content) >= 4 and random.random() < 0.7:
            content[1:4] = struct.pack(">I", len(content) - 4)[1:]
        return _HEADER.pack(kind, version, len(content) & 0xFFFF) + content

    def _split(self, record: bytes) -> list[bytes]:
        kind, version, _ = _HEADER.unpack_from(record)
        content = record[_HEADER.size :]
        middle = self._random.randrange(1, len(content))
        return [_HEADER.pack(kind, version, len(part)) + part for part in (content[:middle], content[middle:])]

    def _alert(self) -> bytes:
        return _HEADER.pack(21, 0x0303, 2) + bytes((self._random.choice((1, 2, 9)), self._random.randrange(256)))


def split_records(data: bytes) -> Iterator[bytes]:
    """Yield the records in these bytes."""
    position = 0
    while len(data) - position >= _HEADER.size:
        end = position + _HEADER.size + _HEADER.unpack_from(data, position)[2]
        yield data[position:end]
        position = end
