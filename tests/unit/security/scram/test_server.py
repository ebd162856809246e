"""What the broker's side of SCRAM refuses, and that a client cannot tell the reasons apart."""

import base64
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.security.scram.login import DECOYS, Store, credential, server

from tailrace.security.exchange import AuthenticationFailed, Identity
from tailrace.security.scram.client import ScramClient
from tailrace.security.scram.credential import Credential, Decoys
from tailrace.security.scram.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, Mechanism
from tailrace.security.scram.server import ScramServer

PUBLIC_TEXT = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
STORE = Store({"alice": credential("secret")})


def final_of(password: str, user: str = "alice", store: Store = STORE) -> tuple[ScramServer, bytes]:
    """A broker that waits for the final message, and that message."""
    broker = server(store)
    client = ScramClient(SCRAM_SHA_256, user, password, "nonce")
    final = client.respond(broker.respond(client.start()))
    assert final is not None
    return broker, final


def refused(broker: ScramServer, message: bytes) -> str:
    with pytest.raises(AuthenticationFailed) as caught:
        broker.respond(message)
    assert caught.value.public_text == PUBLIC_TEXT
    assert broker.identity is None
    with pytest.raises(AuthenticationFailed, match="in the state FAILED"):
        broker.respond(b"n,,n=alice,r=nonce")
    return caught.value.reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "GS2 header"),
        (b"n,,", "list of attributes"),
        (b"n,,n=alice", "begin with the attributes n, r"),
        (b"n,,r=nonce,n=alice", "begin with the attributes n, r"),
        (b"n,,n=alice,r=", "nonce"),
        (b"n,,n=alice,r=a b", "nonce"),
        (b"n,,n=,r=nonce", "user name is empty"),
        (b"n,,n=a=b,r=nonce", "neither =2C nor =3D"),
        (b"n,,n=a=2c,r=nonce", "neither =2C nor =3D"),
        (b"n,,n=a\0b,r=nonce", "list of attributes"),
        (b"n,,n=\xff,r=nonce", "UTF-8"),
        (b"n,,m=x,n=alice,r=nonce", "mandatory extension"),
        (b"n,,n=alice,r=nonce,tokenauth=true,tokenauth=false", "twice"),
        (b"n,,n=alice,r=nonce,n=bob", "twice"),
        (b"n,a=,n=alice,r=nonce", "empty authorization id"),
        (b"n,a=bob,n=alice,r=nonce", "alice may not act as bob"),
        (b"p=tls-unique,,n=alice,r=nonce", "channel binding"),
        (b"x,,n=alice,r=nonce", "GS2 header"),
        (b"N,,n=alice,r=nonce", "GS2 header"),
        (b"n,,n=alice,r=" + b"x" * 9000, "9013 bytes"),
    ],
)
def test_a_bad_first_message(message: bytes, reason: str) -> None:
    assert reason in refused(server(STORE), message)


@pytest.mark.parametrize("header", ["n,,", "n,a=alice,", "y,,"])
def test_the_header_is_repeated_in_the_final_message(header: str) -> None:
    for repeated in ("n,,", "n,a=alice,", "y,,"):
        broker = server(STORE)
        broker.respond(f"{header}n=alice,r=nonce".encode())
        binding = base64.b64encode(repeated.encode()).decode()
        reason = refused(broker, f"c={binding},r=nonce3rfcNHYJY1ZVvWVs7j,p={'A' * 43}=".encode())
        assert reason.startswith("wrong password of" if repeated == header else "alice repeated another GS2 header")


def test_an_escaped_authorization_id_is_the_user() -> None:
    broker = server(Store({"a,b": credential("secret")}))
    assert broker.respond(b"n,a=a=2Cb,n=a=2Cb,r=nonce").startswith(b"r=nonce")


@pytest.mark.parametrize(
    ("pattern", "replacement", "reason"),
    [
        (rb"r=nonce", b"r=xnonce", "another nonce"),  # Kafka 3.9 accepts a nonce with more before it
        (rb"(r=[^,]+)", rb"\1x", "another nonce"),
        (rb"r=nonce[^,]+", b"r=nonce", "another nonce"),
        (rb"c=biws", b"c=eSws", "another GS2 header"),
        (rb"c=biws", b"c=!", "channel binding is not valid base64"),
        (rb"c=biws,", b"", "begin with the attributes c, r"),
        (rb",p=.*", b"", "list of attributes"),
        (rb"p=.*", b"p=", "proof is empty"),
        (rb"p=.*", b"p=AAAA", "wrong length"),
        (rb"p=.*", b"p=%", "proof is not valid base64"),
        (rb",p=", b",x=y,p=", "wrong password"),  # the proof covers the extensions
        (rb".*", b"", "list of attributes"),
    ],
)
def test_a_bad_final_message(pattern: bytes, replacement: bytes, reason: str) -> None:
    broker, final = final_of("secret")
    assert reason in refused(broker, re.sub(pattern, replacement, final, count=1))


def test_a_changed_proof_is_refused_in_every_bit() -> None:
    _, final = final_of("secret")
    start, _, proof = final.rpartition(b",p=")
    for place in range(0, 256, 17):
        broker, _ = final_of("secret")
        changed = bytearray(base64.b64decode(proof))
        changed[place // 8] ^= 1 << place % 8
        assert refused(broker, start + b",p=" + base64.b64encode(changed)) == "wrong password of alice"


def test_a_login_is_not_repeated() -> None:
    broker, final = final_of("secret")
    broker.respond(final)
    assert broker.identity == Identity("alice")
    with pytest.raises(AuthenticationFailed, match="in the state COMPLETE"):
        broker.respond(final)
    assert broker.identity is None


# --- unknown users


def test_an_unknown_user_takes_the_steps_of_a_wrong_password() -> None:
    reasons = [refused(*final_of("other", user)) for user in ("alice", "bob")]
    assert reasons == ["wrong password of alice", "user bob has no credential for SCRAM-SHA-256"]


def test_an_unknown_user_has_the_same_salt_each_time() -> None:
    answers = {user: [server(STORE).respond(f"n,,n={user},r=x".encode()) for _ in range(2)] for user in ("bob", "eve")}
    assert answers["bob"][0] == answers["bob"][1]
    assert answers["bob"] != answers["eve"]
    assert re.fullmatch(rb"r=x3rfcNHYJY1ZVvWVs7j,s=[A-Za-z0-9+/]+=*,i=4096", answers["bob"][0])
    assert Decoys(b"another").credential(SCRAM_SHA_256, "bob") != DECOYS.credential(SCRAM_SHA_256, "bob")
    assert DECOYS.credential(SCRAM_SHA_512, "bob").salt != DECOYS.credential(SCRAM_SHA_256, "bob").salt


def test_the_password_of_a_decoy_does_not_log_in() -> None:
    """The user stays unknown, even if the proof fits the decoy."""

    class KnownDecoys(Decoys):
        def credential(self, mechanism: Mechanism, name: str) -> Credential:
            return credential("secret", mechanism)

    broker = ScramServer(SCRAM_SHA_256, STORE, KnownDecoys(b""), "x")
    client = ScramClient(SCRAM_SHA_256, "bob", "secret", "nonce")
    final = client.respond(broker.respond(client.start()))
    assert final is not None
    assert refused(broker, final) == "user bob has no credential for SCRAM-SHA-256"


def test_a_weak_credential_does_not_log_in() -> None:
    good = credential("secret")
    weak = Store({"alice": Credential(good.salt, good.stored_key, good.server_key, 4095)})
    broker, final = final_of("secret", store=weak)
    assert "fewer than 4096 iterations" in refused(broker, final)


# --- anything


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_challenged(message: bytes) -> None:
    broker = server(STORE)
    with suppress(AuthenticationFailed):
        broker.respond(message)
    assert broker.identity is None


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_as_a_proof(message: bytes) -> None:
    broker = server(STORE)
    broker.respond(b"n,,n=alice,r=nonce")
    refused(broker, message)


def test_a_second_login_of_a_connection_has_its_own_text() -> None:
    broker = ScramServer(SCRAM_SHA_256, STORE, DECOYS, "x", is_again=True)
    with pytest.raises(AuthenticationFailed) as caught:
        broker.respond(b"")
    assert caught.value.public_text.startswith("Authentication failed during re-authentication due to")
