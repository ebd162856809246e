"""Fuzz the door of a broker: `python -m tests.faults.security_fuzz --cases 10000000 --seed 1`.

One case is one mutated message: a SASL message, a sequence of frames before the login, a request after it, a flight of
TLS records, or a text of an option. Most connections have no socket, so that a broker sees thousands a second.

| kind | goes to | must never |
| --- | --- | --- |
| message | the login of a listener | let anybody in, or say why to the client |
| door | a connection before its login | answer another API than the three of a login |
| request | a connection after its login | meet a bug, or answer what does not decode |
| record | TLS in memory, with the context of a listener | raise anything but an error of TLS |
| text | the parsers of JAAS texts, rules, stores, certificates and tokens | raise anything but their own errors |
| socket | a listener with TLS or SASL | stay, or disturb others |

For all of them: no bug in the log, no password in the log or in an answer, all memory given back, and a client that
has logged in before is served in between. A failure prints the seed, the number and the kind; `--case NUMBER` runs it
alone.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import ssl
import struct
import sys
import tempfile
import time
from bisect import bisect
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import cast

import psutil
from tests.faults.fake_transport import FakeTransport
from tests.faults.frame_corpus import Corpus
from tests.faults.fuzz import CANARY, Fuzzer, FuzzFailure, _decode
from tests.faults.security_corpus import (
    CANARY_PASSWORD,
    CANARY_USER,
    MARK,
    MECHANISMS,
    PLAIN_PASSWORD,
    PLAIN_USER,
    SecurityCorpus,
    has_public_secret,
)
from tests.faults.security_ground import Ground
from tests.faults.security_text import TextCases
from tests.faults.tls_corpus import Handshake, TlsCorpus

from tailrace.base.event_loop import new_event_loop
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tailrace.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tailrace.records.builder import BatchBuilder
from tailrace.security.exchange import AuthenticationFailed
from tailrace.security.scram.client import ScramClient
from tailrace.security.scram.mechanism import SCRAM_SHA_256
from tailrace.server.connection import Connection
from tailrace.server.security.session import SaslSession
from tailrace.server.server import start_server

SHARES = {"message": 0.5, "door": 0.16, "request": 0.06, "record": 0.11, "text": 0.168, "socket": 0.002}
BEFORE_LOGIN = {17, 18, 36}
LOGIN_ANSWERS = 2
POOL_CASES = 20_000
POOL_FRAMES = 1000
POOL_MESSAGES = 500
GROWTH_BYTES_MAX = 256 << 20
REPORT_CASES = 100_000
CLOSE_TIMEOUT_S = 60.0


class Watch(logging.Handler):
    """Notes every log record that tells of a bug, has a password in it, or could forge a line."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []
        self.may_quote = False
        """Whether the present case has put a password where a name stands."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.ERROR or record.exc_info:
            self.texts.append(logging.Formatter("%(message)s").format(record))
        elif not text.isprintable() or (MARK in text and not self.may_quote):
            self.texts.append(f"a line of the log: {text!r}")


class SecurityFuzzer(Fuzzer):
    """One broker with secured listeners, one seed."""

    def __init__(self, folder: Path, seed: int, shares: dict[str, float] | None = None) -> None:
        super().__init__(folder / "data", seed)
        self._ground = Ground(folder)
        self._config = self._ground.config
        self._bugs = self._watch = Watch()  # type: ignore[assignment]
        self._random = Random()
        self._kinds, self._bounds = tuple(shares or SHARES), tuple(accumulate((shares or SHARES).values()))
        self._pool: list[bytes] = []
        self._logins: dict[str, list[bytes]] = {}
        self._pool_number = -1
        self._input = b""
        self._started_bytes = 0
        self._cases = {
            "message": self._message,
            "door": self._door,
            "request": self._request,
            "record": self._record,
            "text": self._text,
            "socket": self._socket,
        }
        self._texts = TextCases(self._ground)

    async def _start(self) -> None:
        self._server = await start_server(self._config)
        await self._ground.add_users(self._server)
        self._endpoints = {endpoint.name: endpoint for endpoint in self._server.broker.config.broker_listeners}
        self._canary = await self._log_in_canary()
        self._canary_answers = 0

    async def run_one(self, number: int) -> None:
        """Run one case on a new broker."""
        logging.getLogger("tailrace").addHandler(self._watch)
        await self._start()
        try:
            await self._prepare_round()
            await self._case(number)
        finally:
            await self._server.stop()
            logging.getLogger("tailrace").removeHandler(self._watch)

    # --- one case

    async def _case(self, number: int) -> None:
        random = self._random
        random.seed(self._seed << 40 | number)
        kind = self._kinds[bisect(self._bounds, random.random() * self._bounds[-1])]
        if number // POOL_CASES != self._pool_number:
            self._refill(number // POOL_CASES)
        self._watch.may_quote = False
        started = time.monotonic()
        try:
            outcome = await self._cases[kind](random)
            if self._watch.texts:
                raise FuzzFailure(self._watch.texts[0])
        except Exception as error:
            kept = self._keep(number, self._input)
            text = f"seed {self._seed} case {number} {kind}: {type(error).__name__} {error}\nits input: {kept}"
            raise FuzzFailure(text) from error
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)
        self.outcomes[f"{kind} {outcome}"] += 1
        if number % REPORT_CASES == 0:
            self._report(number)

    def _refill(self, number: int) -> None:
        """Draw other sound requests, which the next cases mutate."""
        self._pool_number = number
        corpus = Corpus(Random(f"{self._seed}-pool-{number}"), self._world)
        self._pool = [corpus.frame()[2] for _ in range(POOL_FRAMES)]
        logins = SecurityCorpus(Random(f"{self._seed}-logins-{number}"), self._ground.refused_tokens)
        self._logins = {name: [logins.first_message(name) for _ in range(POOL_MESSAGES)] for name in MECHANISMS}

    def _report(self, number: int) -> None:
        rss_bytes = psutil.Process().memory_info().rss
        print(f"{number} cases, {rss_bytes >> 20} MiB", flush=True)
        if not self._started_bytes:
            self._started_bytes = rss_bytes
        elif rss_bytes > self._started_bytes + GROWTH_BYTES_MAX:
            raise FuzzFailure(f"memory grew from {self._started_bytes >> 20} to {rss_bytes >> 20} MiB")

    # --- messages of a login

    async def _message(self, random: Random) -> str:
        corpus = SecurityCorpus(random, self._ground.refused_tokens)
        mechanism = random.choice(MECHANISMS)
        message = random.choice(self._logins[mechanism])
        if random.random() < 0.8:
            message = corpus.sentence(message)
        self._input = message
        self._watch.may_quote = has_public_secret(mechanism, message)
        refusals: list[str] = []
        guards = self._server.listeners.guards
        session = guards.session("SASL_PLAINTEXT", lambda _: None, lambda _, reason: refusals.append(reason))
        assert isinstance(session, SaslSession)
        session.handshake(mechanism, 1)
        try:
            answer = await session.respond(message)
            if mechanism.startswith("SCRAM"):
                final = corpus.scram_final(answer.token)
                self._input = final if random.random() < 0.3 else corpus.sentence(final)
                answer = await session.respond(self._input)
            elif not session.is_complete:
                answer = await session.respond(random.choice((b"\x01", b"", message)))
        except AuthenticationFailed as failure:
            self._check_refusal(failure)
            return "refused"
        raise FuzzFailure(f"the broker let a client without a password in, or went on: {answer}")

    def _check_refusal(self, failure: AuthenticationFailed) -> None:
        if MARK in failure.public_text or len(failure.public_text) > 200:
            raise FuzzFailure(f"the client reads {failure.public_text!r}")
        if MARK in failure.reason and not self._watch.may_quote:
            raise FuzzFailure(f"the log says {failure.reason!r}")

    # --- connections before and after the login

    def _connect(self, listener: str = "SASL_PLAINTEXT") -> tuple[Connection, FakeTransport]:
        connection = cast("Connection", self._server.listeners._protocol(self._endpoints[listener]))
        return connection, FakeTransport(connection)

    async def _door(self, random: Random) -> str:
        """Frames of a client that knows no password."""
        connection, transport = self._connect()
        corpus = SecurityCorpus(random, self._ground.refused_tokens)
        frames = [self._door_frame(random, corpus) for _ in range(random.choice((1, 2, 2, 3, 4)))]
        self._watch.may_quote = True  # what is no message of a login any more may hold a password anywhere
        self._input = b"".join(frames)
        if random.random() < 0.1:
            self._input = Corpus(random, self._world).mutate(self._input)
        if random.random() < 0.1:
            middle = random.randrange(len(self._input) + 1)
            await transport.deliver(self._input[:middle])
            await transport.until_quiet()
            await transport.deliver(self._input[middle:])
        else:
            await transport.deliver(self._input)
        sent = await transport.finish()
        if connection.principal != "User:ANONYMOUS" or cast("SaslSession", connection.session).is_complete:
            raise FuzzFailure(f"{connection.principal} came in without a password")
        requests, count = _request_keys(self._input), len(_split_answers(sent))
        if count > sum(key in BEFORE_LOGIN or key is None for key in requests):
            raise FuzzFailure(f"{count} answers to the requests {requests} before the login")
        return "answered" if count else "closed"

    def _door_frame(self, random: Random, corpus: SecurityCorpus) -> bytes:
        mechanism = random.choice((*MECHANISMS, "GSSAPI", "", "plain", "x" * 30_000))
        message = random.choice(self._logins[random.choice(MECHANISMS)])
        version = random.randrange(3)
        draw = random.random()
        if draw < 0.3:
            frame = encode_request(7, "fuzz", SaslHandshakeRequest(mechanism=mechanism), random.randrange(2))
        elif draw < 0.6:
            if random.random() < 0.5:
                message = corpus.sentence(message)
            frame = encode_request(7, "fuzz", SaslAuthenticateRequest(auth_bytes=message), version)
        elif draw < 0.7:
            return struct.pack(">i", len(message)) + message
        elif draw < 0.8:
            frame = encode_request(7, "fuzz", ApiVersionsRequest(), random.randrange(4))
        elif draw < 0.9:
            other = random.choice(self._pool)
            return struct.pack(">i", len(other)) + other
        else:
            length = random.choice((0, -1, 3, 1 << 19, (1 << 19) + 1, 1 << 30, 0x16030100, -(2**31)))
            return struct.pack(">i", length) + random.randbytes(random.choice((0, 1, 20)))
        data = b"".join(frame)
        if random.random() < 0.5:
            body = Corpus(random, self._world).mutate(data[4:])
            data = struct.pack(">i", len(body)) + body
        return data

    async def _request(self, random: Random) -> str:
        """A request of a super user, or of a user without rights, after a login."""
        connection, transport = self._connect()
        token = f"\0{PLAIN_USER}\0{PLAIN_PASSWORD}" if random.random() < 0.8 else "\0poor\0poor"
        await transport.deliver(_framed_login("PLAIN", token.encode()))
        frame = random.choice(self._pool)
        if random.random() < 0.3:
            frame = Corpus(random, self._world).mutate(frame)
        self._input = frame
        await transport.deliver(struct.pack(">i", len(frame)) + frame)
        sent = await transport.finish()
        if connection.principal == "User:ANONYMOUS":
            raise FuzzFailure("a right password was refused")
        answers = _split_answers(sent)[LOGIN_ANSWERS:]
        if answers:
            _decode(answers[0], *struct.unpack_from(">hh", frame))
        return "answered" if answers else "closed"

    # --- the rest

    async def _record(self, random: Random) -> str:
        corpus = TlsCorpus(random)
        context = cast("ssl.SSLContext", self._server.listeners.guards[random.choice(("SSL", "SASL_SSL"))].tls)
        draw = random.random()
        if draw < 0.9:
            self._input = corpus.mutate(random.choice(self._ground.hellos))
            return "taken" if Handshake(context, None).receive(self._input) else "refused"
        handshake = Handshake(context, random.choice(self._ground.client_contexts))
        handshake.receive(handshake.client_flight())
        second = handshake.client_flight()
        if draw < 0.95:
            self._input = corpus.mutate(second)
            return "taken" if handshake.receive(self._input) else "refused"
        while second:
            handshake.receive(second)
            second = handshake.client_flight()
        self._input = corpus.mutate(handshake.client_data(random.randbytes(random.choice((1, 100, 20_000)))))
        return "taken" if handshake.receive(self._input) else "refused"

    async def _text(self, random: Random) -> str:
        self._input, outcome = self._texts.run(random)
        return outcome

    async def _socket(self, random: Random) -> str:
        corpus = SecurityCorpus(random, self._ground.refused_tokens)
        endpoint = random.choice([each for each in self._server.endpoints if each.name != "INTERNAL"])
        self._watch.may_quote = True
        if endpoint.name == "SASL_PLAINTEXT":
            self._input = b"".join(self._door_frame(random, corpus) for _ in range(3))
        else:
            self._input = TlsCorpus(random).mutate(random.choice(self._ground.hellos))
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        try:
            writer.write(self._input)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), CLOSE_TIMEOUT_S)
        except TimeoutError:
            raise FuzzFailure(f"the connection was not closed within {CLOSE_TIMEOUT_S:g} s") from None
        except (OSError, RuntimeError):
            return "reset"
        finally:
            writer.close()
        return "closed"

    # --- a client that has logged in before

    async def _log_in_canary(self) -> FakeTransport:
        connection, transport = self._connect()
        client = ScramClient(SCRAM_SHA_256, CANARY_USER, CANARY_PASSWORD, "nonceofthecanary")
        handshake = encode_request(1, CANARY, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        await transport.deliver(b"".join(handshake) + _authenticate(client.start()))
        await transport.until_quiet()
        answer = bytes(transport.sent)
        final = client.respond(answer[answer.index(b"r=nonceofthecanary") : answer.index(b",i=4096") + 7])
        await transport.deliver(_authenticate(cast("bytes", final)))
        await transport.until_quiet()
        if connection.principal != f"User:{CANARY_USER}":
            raise FuzzFailure("the canary could not log in")
        return transport

    async def _check_canary(self) -> None:
        builder = BatchBuilder()
        builder.append(self._world.now_ms, b"canary", b"sings")
        partition = ProduceRequestPartition(index=0, records=builder.build())
        produce = ProduceRequest(acks=-1, topic_data=[ProduceRequestTopic(name=CANARY, partition_data=[partition])])
        self._canary.sent.clear()
        await self._canary.deliver(b"".join(encode_request(1, CANARY, produce, 8)))
        await self._canary.until_quiet()
        answer = _decode(bytes(self._canary.sent), 0, 8).responses[0].partition_responses[0]
        if (answer.error_code, answer.base_offset) != (0, self._canary_offset):
            raise FuzzFailure(f"the canary's record was not taken at {self._canary_offset}: {answer}")
        self._canary_offset += 1

    async def _check_memory(self) -> None:
        await self._canary.finish()
        await super()._check_memory()


def _authenticate(message: bytes) -> bytes:
    return b"".join(encode_request(2, CANARY, SaslAuthenticateRequest(auth_bytes=message), 1))


def _framed_login(mechanism: str, message: bytes) -> bytes:
    return b"".join(encode_request(1, "fuzz", SaslHandshakeRequest(mechanism=mechanism), 1)) + _authenticate(message)


def _split_answers(sent: bytes) -> list[bytes]:
    """Return the frames that the broker has sent, which must be whole and without a password."""
    if MARK.encode() in sent:
        raise FuzzFailure("a password came back")
    answers, position = [], 0
    while position < len(sent):
        (size,) = struct.unpack_from(">i", sent, position)
        end = position + 4 + size
        if size < 0 or end > len(sent):
            raise FuzzFailure(f"an answer at {position} is not whole")
        answers.append(sent[position:end])
        position = end
    return answers


def _request_keys(data: bytes) -> list[int | None]:
    """Return the API keys of the frames in these bytes; None where a frame may be a bare token."""
    keys: list[int | None] = []
    position, is_bare = 0, False
    while len(data) - position >= 8:
        size, key, version = struct.unpack_from(">ihh", data, position)
        keys.append(None if is_bare else key)
        is_bare = is_bare or (key == 17 and version == 0)
        if size <= 0:
            break
        position += 4 + size
    return keys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--case", type=int, help="run the case with this number and nothing else")
    given = parser.parse_args()
    logging.getLogger("tailrace").setLevel(logging.DEBUG)
    logging.getLogger("tailrace").propagate = False
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        fuzzer = SecurityFuzzer(Path(name), given.seed)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            started = time.monotonic()
            try:
                if given.case is not None:
                    runner.run(fuzzer.run_one(given.case))
                    return
                count = runner.run(fuzzer.run(given.cases, given.seconds))
            except FuzzFailure as failure:
                sys.exit(str(failure))
    taken_s = time.monotonic() - started
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"seed {given.seed}: {count} cases in {taken_s:.0f} s, {count / taken_s:.0f}/s, peak memory {peak_mib} MiB")
    print(f"slowest case {fuzzer.slowest_s * 1000:.0f} ms; {dict(sorted(fuzzer.outcomes.items()))}")


if __name__ == "__main__":
    main()
