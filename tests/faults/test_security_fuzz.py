"""A few thousand mutated logins, frames, TLS records and texts; `make fuzz-security` runs ten million."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.faults.fuzz import FuzzFailure
from tests.faults.security_corpus import MARK, MECHANISMS, PLAIN_PASSWORD, SecurityCorpus, has_public_secret
from tests.faults.security_fuzz import SHARES, SecurityFuzzer

from tailrace.base.event_loop import new_event_loop
from tailrace.machines.controller import topic as topic_decisions
from tailrace.security import plain
from tailrace.server.handlers import topic as topic_handlers
from tailrace.server.security.session import SaslSession

pytest.importorskip("joserfc")

CASES = 4000


def run(fuzzer: SecurityFuzzer, cases: int) -> int:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(fuzzer.run(cases))


@pytest.fixture(autouse=True)
def things_come_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The fuzzer lowers a limit for speed, and reads the log at every level."""
    for module in (topic_decisions, topic_handlers):
        monkeypatch.setattr(module, "PARTITIONS_PER_REQUEST_MAX", module.PARTITIONS_PER_REQUEST_MAX)
    logger = logging.getLogger("tailrace")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(before)


def test_mutated_logins_and_records_never_meet_a_bug(tmp_path: Path) -> None:
    shares = {**SHARES, "socket": 0.01}
    fuzzer = SecurityFuzzer(tmp_path, 1, shares)
    assert run(fuzzer, CASES) == CASES
    for kind, share in shares.items():
        count = sum(count for outcome, count in fuzzer.outcomes.items() if outcome.startswith(f"{kind} "))
        assert count > CASES * share / 3, kind
    for outcome in ("door answered", "door closed", "request answered", "record refused", "record taken", "text taken"):
        assert fuzzer.outcomes[outcome] > 0, outcome


def test_the_same_seed_gives_the_same_messages() -> None:
    drawn = [[SecurityCorpus(Random(7), ["t"]).first_message(name) for name in MECHANISMS] for _ in range(2)]
    assert drawn[0] == drawn[1]


# --- a fuzzer that cannot fail proves nothing


def test_the_fuzzer_sees_a_login_without_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain.PlainUsers, "is_password", lambda self, name, password: name in self._digests)
    with pytest.raises(FuzzFailure, match=r"(?s)seed 1 case \d+ message: .*let a client without a password in"):
        run(SecurityFuzzer(tmp_path, 1, {"message": 1.0}), 2000)


def test_the_fuzzer_sees_an_answer_before_the_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SaslSession, "check", lambda self, api_key: None)
    with pytest.raises(FuzzFailure, match=r"(?s)seed 1 case \d+ door: "):
        run(SecurityFuzzer(tmp_path, 1, {"door": 1.0}), 2000)


def test_the_fuzzer_sees_a_password_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    respond = plain.PlainServer.respond

    def tell(self: plain.PlainServer, message: bytes) -> bytes:
        logging.getLogger("tailrace.server").debug("%r", message)
        return respond(self, message)

    monkeypatch.setattr(plain.PlainServer, "respond", tell)
    with pytest.raises(FuzzFailure, match=rf"(?s)seed 1 case \d+ .*a line of the log: .*{MARK}"):
        run(SecurityFuzzer(tmp_path, 1, {"message": 0.5, "request": 0.5}), 2000)


@pytest.mark.parametrize(
    ("mechanism", "message", "is_public"),
    [
        ("PLAIN", f"\0alice\0{PLAIN_PASSWORD}", False),
        ("PLAIN", f"\0{PLAIN_PASSWORD}\0alice", True),
        ("OAUTHBEARER", f"n,,\x01auth=Bearer {MARK}\x01\x01", False),
        ("OAUTHBEARER", f"n,a={MARK},\x01auth=Bearer x\x01\x01", True),
    ],
)
def test_a_password_in_the_place_of_a_name(mechanism: str, message: str, is_public: bool) -> None:
    assert has_public_secret(mechanism, message.encode()) is is_public
