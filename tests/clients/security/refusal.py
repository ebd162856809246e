"""The ways in which a client is refused: how it comes, what it is told, and what the broker logs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.clients.security.access import Access
from tests.clients.security.ground import PLAIN_USER, SCRAM_USER, Ground
from tests.clients.security.outcome import DEADLINE_S, Refused, Use

WRONG = "wrong-one-5519"


class Case(NamedTuple):
    """An access that is refused; what clients are told, as a pattern; and the reason in the broker's log."""

    access: Callable[[Ground], Access]
    told: str
    logged: str


# aiokafka and kafkajs do not look at the answer to a token and meet a closed connection; franz-go shows none of it.
INVALID = "(?i)invalid_token|closed|unexpected data in oauth response"
# The broker closes the connection once it has sent the refusal, as Kafka does. kafka-python may see the end first.
ENDED = "socket disconnected"

LOGINS = {
    "wrong password of PLAIN": Case(
        lambda ground: ground.login("SASL_SSL", "PLAIN", password=WRONG),
        "Authentication failed: Invalid username or password",
        f"by PLAIN: wrong password of user {PLAIN_USER.name}",
    ),
    "unknown user of PLAIN": Case(
        lambda ground: ground.login("SASL_PLAINTEXT", "PLAIN", user="mallory"),
        "Authentication failed: Invalid username or password",
        "by PLAIN: unknown user mallory",
    ),
    "wrong password of SCRAM-SHA-256": Case(
        lambda ground: ground.login("SASL_PLAINTEXT", "SCRAM-SHA-256", password=WRONG),
        "invalid credentials with SASL mechanism SCRAM-SHA-256",
        f"by SCRAM-SHA-256: wrong password of {SCRAM_USER.name}",
    ),
    "unknown user of SCRAM-SHA-512": Case(
        lambda ground: ground.login("SASL_SSL", "SCRAM-SHA-512", user="mallory"),
        "invalid credentials with SASL mechanism SCRAM-SHA-512",
        "by SCRAM-SHA-512: user mallory has no credential",
    ),
    "expired token": Case(
        lambda ground: ground.login("SASL_SSL", "OAUTHBEARER", token=ground.tokens.token("x", lifetime_s=-600)),
        INVALID,
        "by OAUTHBEARER: the token expired 6",
    ),
    "token for another audience": Case(
        lambda ground: ground.login("SASL_PLAINTEXT", "OAUTHBEARER", token=ground.tokens.token("x", audience="other")),
        INVALID,
        "by OAUTHBEARER: the audience 'other' is none of the expected ones",
    ),
    "mechanism that the listener does not have": Case(
        lambda ground: ground.login("UNSECURED", "PLAIN"),
        "(?i)Unsupported ?SASL ?mechanism|not (support|offer) the (requested )?SASL",
        "UNSECURED: the client wants the mechanism PLAIN, which is not enabled",
    ),
}
# With TLS 1.3 a client learns after its handshake that its certificate was refused. Then aiokafka tells only that the
# connection is closed.
CERTIFICATES = {
    "no certificate": Case(
        lambda ground: ground.access("MUTUAL"),
        "(?i)certificate.required|asks for a certificate|closed",
        "has shown no certificate",
    ),
    "untrusted certificate": Case(
        lambda ground: ground.certified("MUTUAL", ground.stranger.sign("eve")),
        "(?i)unknown.ca|unknown.certificate.authority|whose authority it does not know|closed",
        "the client's certificate is not accepted: unable to get local issuer certificate",
    ),
    "expired certificate": Case(
        lambda ground: ground.certified("MUTUAL", ground.issuer.sign("past", is_expired=True)),
        "(?i)certificate.(of this client )?(has )?expired|expired.certificate|closed",
        "the client's certificate is not accepted: certificate has expired",
    ),
    "broker that the client does not trust": Case(
        lambda ground: ground.access("SSL", trust=str(ground.stranger.trust)),
        "(?i)certificate verify failed|PKIX path building failed|self-signed|unknown authority",
        "on listener SSL: the client ",
    ),
    "broker whose certificate has expired": Case(
        lambda ground: ground.access("EXPIRED"),
        "(?i)certificate verify failed|validity check failed|has expired",
        "on listener EXPIRED: ",
    ),
    "broker whose certificate is for another host": Case(
        lambda ground: ground.access("OTHER_HOST"),
        "(?i)mismatch|certificate verify failed|alternative names|does not match|is not for the host name|IP SANs",
        "on listener OTHER_HOST: ",
    ),
}
CASES = {**LOGINS, **CERTIFICATES}


def check_refusal(ground: Ground, use: Use, case: Case, topic: str) -> None:
    """See that a client is refused soon, that it is told why, and that the log says why without a secret."""
    log = ground.broker.log
    since = len(log.lines)
    access = case.access(ground)
    began = time.monotonic()
    with pytest.raises(Refused) as refused:
        use(access, topic, 1, 0)
    assert time.monotonic() - began < DEADLINE_S  # a client that is not refused tries for longer
    assert re.search(f"{case.told}|{ENDED}", str(refused.value))
    log.wait_for(case.logged, since=since)
    shown = "\n".join(log.lines[since:])
    assert not [secret for secret in (access.password, access.token) if secret and secret in shown]
    assert not ground.broker.principals.get(access.client_id)
