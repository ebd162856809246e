"""Stored credentials: their bounds, and the text that Kafka keeps in ZooKeeper."""

import pytest
from tests.unit.security.scram.login import credential

from tailrace.security.scram.credential import (
    InvalidCredential,
    credential_from_salted,
    format_credential,
    make_credential,
    parse_credential,
)
from tailrace.security.scram.mechanism import SCRAM_SHA_256, SCRAM_SHA_512


@pytest.mark.parametrize("iterations", [-1, 0, 4095, 16385])
def test_iterations_outside_the_bounds_are_refused(iterations: int) -> None:
    with pytest.raises(InvalidCredential, match=str(iterations)):
        make_credential(SCRAM_SHA_256, "secret", b"salt", iterations)


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_the_bounds_are_allowed(iterations: int) -> None:
    assert make_credential(SCRAM_SHA_256, "secret", b"salt", iterations).iterations == iterations


def test_the_client_may_stretch_the_password() -> None:
    salted = SCRAM_SHA_512.salted_password("secret", b"salt", 4096)
    made = make_credential(SCRAM_SHA_512, "secret", b"salt", 4096)
    assert credential_from_salted(SCRAM_SHA_512, salted, b"salt", 4096) == made
    with pytest.raises(InvalidCredential, match="64 bytes"):
        credential_from_salted(SCRAM_SHA_512, salted[:32], b"salt", 4096)
    with pytest.raises(InvalidCredential, match="salt is empty"):
        credential_from_salted(SCRAM_SHA_512, salted, b"", 4096)
    with pytest.raises(InvalidCredential, match="password is empty"):
        make_credential(SCRAM_SHA_512, "", b"salt", 4096)


def test_kafkas_text() -> None:
    made = credential("secret")
    text = format_credential(made)
    assert text.startswith("salt=c2FsdCBvZiB0aGUgdXNlcg==,stored_key=")
    assert text.endswith(",iterations=4096")
    assert parse_credential(text) == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=AA==",
        "salt=AA==,stored_key=AA==,server_key=AA==,iterations=x",
        "salt=AA==,stored_key=AA==,server_key=AA==,iterations=-1",
        "salt=%,stored_key=AA==,server_key=AA==,iterations=4096",
        "salt=AA==,stored_key=AA==,server_key=AA==,iterations=4096,more=1",
        "salt=AA==,salt=AA==,stored_key=AA==,server_key=AA==,iterations=4096",
    ],
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidCredential):
        parse_credential(text)


def test_keys_are_not_shown() -> None:
    assert repr(credential("secret")) == "Credential(4096 iterations)"
