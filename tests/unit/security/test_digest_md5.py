"""The client's side of DIGEST-MD5: the example of RFC 2831, and servers that are not what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.security.digest_md5 import DigestMd5Client
from tailrace.security.exchange import AuthenticationFailed

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
RESPONSE = {
    b"charset=utf-8",
    b'username="chris"',
    b'realm="elwood.innosoft.com"',
    b'nonce="OA6MG9tEQGm2hh"',
    b"nc=00000001",
    b'cnonce="OA6MHXh6VqTrRk"',
    b'digest-uri="imap/elwood.innosoft.com"',
    b"response=d388dad90d4bbd760a152321f2143af7",
    b"qop=auth",
}
PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def client(user: str = "chris") -> DigestMd5Client:
    started = DigestMd5Client(user, "secret", "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")
    assert started.start() == b""
    return started


def test_the_example_of_the_rfc() -> None:
    login = client()
    response = login.respond(CHALLENGE)
    assert response is not None
    assert set(response.split(b",")) == RESPONSE
    assert not login.is_complete
    assert login.respond(PROOF) is None
    assert login.is_complete


def test_blanks_empty_elements_and_unknown_directives_do_not_matter() -> None:
    challenge = (
        b' , realm = "elwood.innosoft.com" ,, NONCE="OA6MG9tEQGm2hh",\r\n stale=true,maxbuf=65536,realm="other",'
        b'cipher="rc4,des",algorithm="md5-sess",charset=UTF-8, qop="auth-conf, auth" ,'
    )
    assert client().respond(challenge) == client().respond(CHALLENGE)


def test_a_name_with_quotes_stays_one_value() -> None:
    response = client('a"b\\c,realm="x').respond(CHALLENGE)
    assert response is not None
    assert b'username="a\\"b\\\\c,realm=\\"x"' in response


@pytest.mark.parametrize(
    ("user", "charset", "sent"),
    [
        ("jürgen", b",charset=utf-8", "jürgen".encode()),
        ("jürgen", b"", b"j\xfcrgen"),
        ("汉", b",charset=utf-8", "汉".encode()),
    ],
)
def test_names_are_sent_in_the_charset_of_the_server(user: str, charset: bytes, sent: bytes) -> None:
    response = client(user).respond(b'nonce="n",algorithm=md5-sess' + charset)
    assert response is not None
    assert b'username="' + sent + b'"' in response
    assert b"realm=" not in response
    assert (b"charset=utf-8" in response) == bool(charset)


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b"", "no nonce"),
        (b'nonce="",algorithm=md5-sess', "no nonce"),
        (b'nonce="a",nonce="b",algorithm=md5-sess', "nonce is given twice"),
        (b'nonce="a"', "the algorithm is not md5-sess"),
        (b'nonce="a",algorithm=md5', "the algorithm is not md5-sess"),
        (b'nonce="a",algorithm=md5-sess,qop="auth-int,auth-conf"', "only qop=auth is supported"),
        (b'nonce="a',"directive 1"),
        (b'nonce="a" algorithm=md5-sess', "directive 1"),
        (b'nonce="a",algorithm=', "directive 2"),
        (b"nonce", "directive 1"),
        (b'nonce="\xff"', "not valid UTF-8"),
        (b'nonce="' + b"a" * 2048 + b'"', "at most 2047 are allowed"),
    ],
)  # fmt: skip
def test_a_bad_challenge_gets_no_answer(challenge: bytes, words: str) -> None:
    login = client()
    with pytest.raises(AuthenticationFailed, match=words) as failed:
        login.respond(challenge)
    assert "secret" not in str(failed.value)
    with pytest.raises(AuthenticationFailed, match="in the state FAILED"):
        login.respond(CHALLENGE)


def test_a_name_that_the_charset_lacks_is_an_error() -> None:
    with pytest.raises(AuthenticationFailed, match="does not know UTF-8"):
        client("汉").respond(b'nonce="n",algorithm=md5-sess')


@pytest.mark.parametrize("proof", [b"", b"rspauth=00", b'rspauth="\xc3\xa9"', CHALLENGE, PROOF.replace(b"e", b"f")])
def test_a_server_without_the_password_is_no_server(proof: bytes) -> None:
    login = client()
    login.respond(CHALLENGE)
    with pytest.raises(AuthenticationFailed, match="the server does not know the password"):
        login.respond(proof)
    assert not login.is_complete


def test_a_message_after_the_end_is_an_error() -> None:
    login = client()
    login.respond(CHALLENGE)
    login.respond(PROOF)
    with pytest.raises(AuthenticationFailed, match="in the state COMPLETE"):
        login.respond(PROOF)


@given(st.binary(max_size=200) | st.text('abc=",\\ \n-', max_size=200).map(str.encode))
def test_any_bytes_are_answered_or_refused(message: bytes) -> None:
    login = client()
    try:
        login.respond(message)
    except AuthenticationFailed:
        assert not login.is_complete
