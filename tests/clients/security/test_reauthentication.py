"""Logins with a lifetime (KIP-368): clients log in again on the same connection, or are cut off."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.clients import matrix, program
from tests.clients.raw import CLOSED, Wire
from tests.clients.security import use_confluent, use_tailrace
from tests.clients.security.ground import PLAIN_USER, Ground, open_ground
from tests.clients.security.outcome import Use
from tests.clients.security.raw_login import authenticate, handshake, log_in
from tests.clients.security.use_program import use_program

LIFETIME_MS = 2500
ATTEMPTS = 5
SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE = 58, 33, 34


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A broker whose logins are valid for some seconds."""
    more = {"connections.max.reauth.ms": str(LIFETIME_MS)}
    with open_ground(tmp_path_factory.mktemp("brief"), more) as opened:
        yield opened


CLIENTS = [
    pytest.param(use_confluent.use, id="confluent-kafka"),
    pytest.param(use_tailrace.use, id="tailrace"),
    *(
        pytest.param(
            use_program(program.java_with_tokens(matrix.entry(name).version, "Login")),
            id=name.replace(" ", "-"),
            marks=[pytest.mark.slow, pytest.mark.needs("java")],
        )
        for name in ("kafka-clients 3.9", "kafka-clients 4")
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("use", CLIENTS)
@pytest.mark.parametrize(
    "mechanism",
    ["SCRAM-SHA-512", *(pytest.param(each, marks=pytest.mark.slow) for each in ("PLAIN", "OAUTHBEARER"))],
)
def test_client_goes_on(brief: Ground, use: Use, mechanism: str, topic: str) -> None:
    """The producer writes for longer than a login is valid, and no record is lost or written twice."""
    count = 20
    for attempt in range(ATTEMPTS):
        since = len(brief.broker.log.lines)
        access = brief.login("SASL_SSL", mechanism)
        values = use(access, f"{topic}-{attempt}", count, LIFETIME_MS * 2 // count).values
        assert values == [str(index) for index in range(count)]
        lines = brief.broker.log.lines[since:]
        assert not [line for line in lines if "refused" in line]
        if not [line for line in lines if "lifetime" in line]:
            return
        # A client that a busy machine did not let run came too late, and continued on another connection.
    pytest.fail(f"the client was cut off in each of {ATTEMPTS} attempts")


def _wire(ground: Ground) -> Wire:
    return Wire(ground.broker.address("SASL_PLAINTEXT"))


def _logged_in_for_a_second(bare: Wire) -> None:
    """Log in, and wait until a client may do so again."""
    assert 0 < log_in(bare)["session_lifetime_ms"] <= LIFETIME_MS
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        answer = handshake(bare)
        assert not isinstance(answer, str)
        if answer["error_code"] == 0:
            return
        assert answer["error_code"] == ILLEGAL_SASL_STATE  # a second has not passed
        time.sleep(0.1)
    pytest.fail("the broker never let the client log in again")


def test_client_that_does_not_log_in_again_is_cut_off(brief: Ground) -> None:
    since = len(brief.broker.log.lines)
    with _wire(brief) as bare:
        log_in(bare)
        deadline = time.monotonic() + 30
        while (answer := bare.ask("Metadata", 1, topics=[])) != CLOSED:
            assert not isinstance(answer, str)
            assert time.monotonic() < deadline
            time.sleep(0.1)
    brief.broker.log.wait_for("the lifetime of its login is over", since=since)


def test_login_after_its_lifetime(brief: Ground) -> None:
    """A client may log in again after the end of its lifetime too, as long as it sends nothing else before."""
    with _wire(brief) as bare:
        log_in(bare)
        time.sleep(LIFETIME_MS / 1000 + 0.5)
        log_in(bare)
        assert not isinstance(bare.ask("Metadata", 1, topics=[]), str)


def test_another_user(brief: Ground) -> None:
    (brief.folder / "users.properties").write_text(f"{PLAIN_USER.name}={PLAIN_USER.password}\nfrank=frank-knows-1123\n")
    with _wire(brief) as bare:
        _logged_in_for_a_second(bare)
        answer = authenticate(bare, b"\0frank\0frank-knows-1123")
        assert not isinstance(answer, str)
        assert answer["error_code"] == SASL_AUTHENTICATION_FAILED
        assert bare.receive() == CLOSED


def test_another_mechanism(brief: Ground) -> None:
    with _wire(brief) as bare:
        log_in(bare)
        time.sleep(1.2)
        answer = handshake(bare, "SCRAM-SHA-256")
        assert not isinstance(answer, str)
        assert answer["error_code"] == UNSUPPORTED_SASL_MECHANISM
        assert bare.receive() == CLOSED


def test_request_between_the_messages_of_the_second_login(brief: Ground) -> None:
    with _wire(brief) as bare:
        _logged_in_for_a_second(bare)
        assert bare.ask("Metadata", 1, topics=[]) == CLOSED
