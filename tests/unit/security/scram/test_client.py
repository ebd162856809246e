"""What the client's side of SCRAM refuses of a broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.security.scram.login import Store, credential, server

from tailrace.security.exchange import AuthenticationFailed
from tailrace.security.scram.client import ScramClient
from tailrace.security.scram.mechanism import SCRAM_SHA_256

SALT = b"s=c2FsdA=="


def started() -> ScramClient:
    client = ScramClient(SCRAM_SHA_256, "alice", "secret", "nonce")
    client.start()
    return client


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"r=nonce," + SALT + b",i=4096", "does not continue"),
        (b"r=other," + SALT + b",i=4096", "does not continue"),
        (b"r=noncex," + SALT + b",i=4095", "4095 iterations"),
        (b"r=noncex," + SALT + b",i=1000001", "1000001 iterations"),
        (b"r=noncex," + SALT + b",i=0", "not a positive number"),
        (b"r=noncex," + SALT + b",i=-1", "not a positive number"),
        (b"r=noncex," + SALT + b",i=99999999999999999999", "not a positive number"),
        (b"r=noncex,s=,i=4096", "salt is empty"),
        (b"m=1,r=noncex," + SALT + b",i=4096", "mandatory extension"),
        (b"e=other-error", "begin with the attributes"),
        (b"", "list of attributes"),
    ],
)
def test_a_bad_first_answer(message: bytes, reason: str) -> None:
    client = started()
    with pytest.raises(AuthenticationFailed, match=reason):
        client.respond(message)
    with pytest.raises(AuthenticationFailed, match="in the state FAILED"):
        client.respond(b"r=noncex," + SALT + b",i=4096")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"v=AAAA", "does not know the password"),
        (b"v=", "signature is empty"),
        (b"e=invalid-proof", "the broker refuses: invalid-proof"),
        (b"", "list of attributes"),
    ],
)
def test_a_bad_final_answer(message: bytes, reason: str) -> None:
    client, broker = started(), server(Store({"alice": credential("secret")}))
    client.respond(broker.respond(client.start()))
    with pytest.raises(AuthenticationFailed, match=reason):
        client.respond(message)
    assert not client.is_complete


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    """It can make up a challenge, but not the signature."""
    client = started()
    client.respond(b"r=noncex," + SALT + b",i=4096")
    with pytest.raises(AuthenticationFailed, match="does not know the password"):
        client.respond(b"v=" + b"A" * 43 + b"=")


def test_an_error_does_not_contain_the_password() -> None:
    client = started()
    with pytest.raises(AuthenticationFailed) as caught:
        client.respond(b"garbage")
    assert "secret" not in str(caught.value) + caught.value.public_text


@given(st.binary(max_size=100))
def test_any_bytes_are_refused_as_a_signature(message: bytes) -> None:
    client = started()
    client.respond(b"r=noncex," + SALT + b",i=4096")
    with pytest.raises(AuthenticationFailed):
        client.respond(message)
