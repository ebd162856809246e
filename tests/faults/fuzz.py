"""Fuzz a broker with mutated requests: `python -m tests.faults.fuzz --cases 1000000 --seed 1`.

Most frames go straight to the dispatcher, some through a socket. After each, the broker must
have answered with something that decodes, have answered nothing because nothing was wanted, or
have refused the peer; never may it have met a bug. In between, another client produces and
fetches; at the end all memory must have come back and every stored batch must be whole.

A failure prints the seed and the number and writes the frame to a file; `--frame FILE` serves it again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

from tests.faults.frame_corpus import Corpus, World

from tailrace.base.event_loop import new_event_loop
from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller import topic as topic_decisions
from tailrace.machines.controller.topic import NewTopic
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from tailrace.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tailrace.protocol.registry import response_type
from tailrace.records.batch import check_crc, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.server.api import APIS
from tailrace.server.connection import Connection, ConnectionClosed
from tailrace.server.dispatch import Dispatcher
from tailrace.server.handlers import topic as topic_handlers
from tailrace.server.server import start_server

TARGETS = ("fuzz-a", "fuzz-b")
CANARY = "canary"
ROUND_CASES = 500
SOCKET_SHARE = 0.02
SLOW_S = 60.0  # a request that hangs takes longer, and no other does on a busy machine
TOPICS_MAX = 20


class FuzzFailure(Exception):
    """The broker did what it never may."""


class Bugs(logging.Handler):
    """Collects every log record that tells of a bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter("%(message)s").format(record))


class Line:
    """A connection as handlers know it, whose peer never waits."""

    listener_name = "PLAINTEXT"
    security_protocol = "PLAINTEXT"
    session = None
    is_token_authenticated = False
    host = local_host = "127.0.0.1"
    peer = "127.0.0.1:50000"
    principal = "User:ANONYMOUS"
    client_software = ""
    reply_bytes_max = 2**31 - 1
    is_abandoned = False

    def note_once(self, text: str) -> None:
        pass

    def when_ending(self, interrupt: Callable[[], None]) -> None:
        interrupt()


class Fuzzer:
    """One broker, one seed."""

    def __init__(self, folder: Path, seed: int, socket_share: float = SOCKET_SHARE) -> None:
        self.outcomes: Counter[str] = Counter()
        self.slowest_s = 0.0
        self._folder = folder
        self._seed = seed
        self._socket_share = socket_share
        self._world = World()
        self._bugs = Bugs()
        options = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder),
            "auto.create.topics.enable": "false",
            "log.segment.bytes": str(1 << 20),
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
        }
        self._config = BrokerConfig(options)
        self._canary_offset = 0

    async def run(self, cases: int, seconds: float = float("inf")) -> int:
        """Run so many cases, or as many as the time allows; how many it were."""
        # Thousands of folders a request are legal and slow, and nothing new after the first few.
        topic_decisions.PARTITIONS_PER_REQUEST_MAX = topic_handlers.PARTITIONS_PER_REQUEST_MAX = 5  # type: ignore[attr-defined]
        logging.getLogger("tailrace").addHandler(self._bugs)
        deadline = time.monotonic() + seconds
        number = 0
        await self._start()
        await self._server.broker.groups.make_topic()
        await self._server.broker.transactions.make_topic()
        try:
            while number < cases and time.monotonic() < deadline:
                await self._prepare_round()
                end = min(number + ROUND_CASES, cases)
                while number < end:
                    number += 1
                    await self._case(number)
                await self._check_canary()
            await self._check_memory()
        finally:
            await self._server.stop()
            logging.getLogger("tailrace").removeHandler(self._bugs)
        self.outcomes["batches verified"] = verify_folder(self._folder)
        return number

    async def replay(self, frame: bytes) -> None:
        """Serve one frame, showing what comes of it."""
        await self._start()
        await self._prepare_round()
        print(await self._dispatcher.serve(cast("Connection", Line()), bytearray(frame)))
        await self._server.stop()

    async def _start(self) -> None:
        self._server = await start_server(self._config)
        self._dispatcher = Dispatcher(self._server.broker)

    # --- one case

    async def _case(self, number: int) -> None:
        random = Random(f"{self._seed}-{number}")
        cls, version, frame = Corpus(random, self._world).frame()
        started = time.monotonic()
        try:
            if random.random() < self._socket_share:
                outcome = await self._through_socket(random, frame)
            else:
                outcome = await self._through_dispatcher(frame)
            if self._bugs.texts:
                raise FuzzFailure(self._bugs.texts[0])
        except Exception as error:
            kept = self._keep(number, frame)
            text = f"seed {self._seed} case {number} {cls.__name__} v{version}: {error}\n--frame {kept}"
            raise FuzzFailure(text) from error
        taken_s = time.monotonic() - started
        if taken_s > SLOW_S:
            kept = self._keep(number, frame)
            raise FuzzFailure(f"seed {self._seed} case {number} took {taken_s:.1f} s\n--frame {kept}")
        self.slowest_s = max(self.slowest_s, taken_s)
        self.outcomes[outcome] += 1

    def _keep(self, number: int, frame: bytes) -> Path:
        # The name must be new: a file of that seed and case may belong to another user of the machine.
        prefix = f"tailrace-fuzz-{self._seed}-{number}-"
        with tempfile.NamedTemporaryFile(prefix=prefix, suffix=".frame", delete=False) as kept:
            kept.write(frame)
        return Path(kept.name)

    async def _through_dispatcher(self, frame: bytes) -> str:
        try:
            reply = await self._dispatcher.serve(cast("Connection", Line()), bytearray(frame))
        except RemoteProtocolError:
            return "refused"
        except ConnectionClosed:
            return "closed"
        if reply is None:
            return "no reply"
        data = b"".join(reply)
        key, version = struct.unpack_from(">hh", frame)
        _decode(data, key, version)
        return "answered"

    async def _through_socket(self, random: Random, frame: bytes) -> str:
        endpoint = self._server.endpoints[0]
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        length = len(frame) if random.random() < 0.8 else random.choice((0, -1, 1, 3, len(frame) + 5, 2**31 - 1))
        try:
            data = struct.pack(">i", length) + frame
            while data:
                size = random.choice((1, 3, 100, len(data)))
                writer.write(data[:size])
                data = data[size:]
                await asyncio.sleep(0)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), SLOW_S)
        except TimeoutError:
            raise FuzzFailure(f"the connection was not closed within {SLOW_S:g} s") from None
        except (OSError, RuntimeError):  # the latter is uvloop's for a transport that is closed already
            return "reset"
        finally:
            writer.close()
        return "socket"

    # --- the world

    async def _prepare_round(self) -> None:
        broker = self._server.broker
        for name in list(broker.image.topics):
            if name not in (*TARGETS, CANARY) and len(broker.image.topics) > TOPICS_MAX:
                await broker.controller.delete_topic(name)
        for name in (*TARGETS, CANARY):
            if name not in broker.image.topics:
                await broker.controller.create_topic(NewTopic(name, 2), broker.topic_defaults)
        self._world.topics = {name: topic.topic_id for name, topic in broker.image.topics.items() if name != CANARY}
        self._world.now_ms = broker.clock.now_ms()

    async def _check_canary(self) -> None:
        """Another client, whose topic nobody else knows."""
        builder = BatchBuilder()
        builder.append(self._world.now_ms, b"canary", b"sings")
        partition = ProduceRequestPartition(index=0, records=builder.build())
        produce = ProduceRequest(acks=-1, topic_data=[ProduceRequestTopic(name=CANARY, partition_data=[partition])])
        produced = await self._ask(produce, 8)
        answer = produced.responses[0].partition_responses[0]
        if (answer.error_code, answer.base_offset) != (0, self._canary_offset):
            raise FuzzFailure(f"the canary's record was not taken at {self._canary_offset}: {answer}")
        wanted = FetchRequestPartition(partition=0, fetch_offset=self._canary_offset, partition_max_bytes=1 << 20)
        fetch = FetchRequest(max_bytes=1 << 20, topics=[FetchRequestTopic(topic=CANARY, partitions=[wanted])])
        fetched = (await self._ask(fetch, 4)).responses[0].partitions[0]
        if fetched.error_code or read_header(fetched.records).base_offset != self._canary_offset:
            raise FuzzFailure(f"the canary's record {self._canary_offset} was not read: {fetched}")
        self._canary_offset += 1

    async def _ask(self, request: Message, version: int) -> Any:
        frame = b"".join(encode_request(1, "canary", request, version))[4:]
        reply = await self._dispatcher.serve(cast("Connection", Line()), bytearray(frame))
        return _decode(b"".join(reply or ()), int(cast("int", request.SCHEMA.key)), version)

    async def _check_memory(self) -> None:
        listeners = self._server.listeners
        for _ in range(12_000):
            if not listeners.connections and not listeners.budget.in_flight_bytes:
                return
            await asyncio.sleep(0.005)
        raise FuzzFailure(f"{len(listeners.connections)} connections and {listeners.budget.in_flight_bytes} bytes stay")


def _decode(data: bytes, key: int, version: int) -> Any:
    (size,) = struct.unpack_from(">i", data)
    if size != len(data) - 4:
        raise FuzzFailure(f"a reply of {len(data) - 4} bytes says that it has {size}")
    kind = response_type(key)
    if not APIS[key].version_min <= version <= APIS[key].version_max:
        version = 0  # ApiVersions in a version that is not served is answered so
    return decode_response(kind, data[4:], version)[1]


def verify_folder(folder: Path) -> int:
    """Walk every log in a data folder; how many batches there are, all of them whole."""
    count = 0
    for path in sorted(folder.glob("*/*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            header = read_header(data, position)
            if position + header.size_bytes > len(data) or not check_crc(data, position, header):
                raise FuzzFailure(f"{path}: the batch at {position} is not whole")
            position += header.size_bytes
            count += 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--frame", type=Path, help="serve the frame in this file and nothing else")
    given = parser.parse_args()
    logging.getLogger("tailrace").setLevel(logging.ERROR)
    logging.getLogger("tailrace").propagate = False
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        fuzzer = Fuzzer(Path(name), given.seed)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            if given.frame:
                runner.run(fuzzer.replay(given.frame.read_bytes()))
                return
            started = time.monotonic()
            try:
                count = runner.run(fuzzer.run(given.cases, given.seconds))
            except FuzzFailure as failure:
                sys.exit(str(failure))
    taken_s = time.monotonic() - started
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"seed {given.seed}: {count} cases in {taken_s:.0f} s, {count / taken_s:.0f}/s, peak memory {peak_mib} MiB")
    print(f"slowest case {fuzzer.slowest_s * 1000:.0f} ms; {dict(fuzzer.outcomes)}")


if __name__ == "__main__":
    main()
