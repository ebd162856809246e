"""Credentials in the header of a request."""

import base64
import json

import pytest

from tailrace.web.credential import Credential, read_credential


def basic(text: bytes, scheme: str = "Basic") -> str:
    return f"{scheme} {base64.b64encode(text).decode()}"


def token(payload: object) -> str:
    part = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    return f"e30.{part}.signature"


def test_a_password_may_have_colons() -> None:
    assert read_credential(basic(b"ann:a:b")) == Credential("ann", "a:b")
    assert read_credential(basic("änn:ß".encode(), "BASIC")) == Credential("änn", "ß")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !",
        basic(b"ann"),
        basic(b"ann:"),
        basic(b":x"),
        basic(b"\xff:x"),
        basic(b"a\0b:x"),
        "Digest a",
    ],
)
def test_what_is_no_password_is_no_credential(header: str) -> None:
    assert read_credential(header) is None


def test_a_token_claims_its_subject() -> None:
    text = token({"sub": "ann"})
    assert read_credential(f"Bearer {text}") == Credential("ann", text, is_token=True)


@pytest.mark.parametrize("payload", [{}, {"sub": 7}, [], "ann"])
def test_a_token_without_a_subject_is_left_to_the_brokers(payload: object) -> None:
    found = read_credential(f"bearer {token(payload)}")
    assert found is not None
    assert (found.user, found.is_token) == ("", True)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c.d", "ä.b.c"])
def test_what_is_no_token_is_no_credential(text: str) -> None:
    assert read_credential(f"Bearer {text}") is None


def test_a_credential_does_not_show_its_secret() -> None:
    assert "s3cret" not in repr(Credential("ann", "s3cret"))
