"""Messages of logins that a broker should survive: sensible ones of every mechanism, then mutated by their grammar.

Everything is drawn from one `random.Random`. Passwords and tokens hold `MARK`, so that a search finds them in the log.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from random import Random

from tests.clients.security.token import ISSUER
from tests.faults.frame_corpus import NASTY_BYTES

MARK = "QZJ7X"
PLAIN_USER, PLAIN_PASSWORD = "alice", f"pw-{MARK}-plain"
SCRAM_USER, SCRAM_PASSWORD = "bob", f"pw-{MARK}-scram"
CANARY_USER, CANARY_PASSWORD = "canary", f"pw-{MARK}-canary"
STORE_PASSWORD = f"pw-{MARK}-store"
TOKEN_KEY = f"pw-{MARK}-tokens"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_USERS = (PLAIN_USER, SCRAM_USER, CANARY_USER, "mallory", "", "a=2Cb", "ä€𝄞", "User:alice", "\x00", "\n", "x" * 9000)
_SEPARATORS = (b"\x00", b",", b"=", b"\x01", b".", b"n,,", b",r=", b",p=", b"m=x,", b"\xff", b"\xc3", b'"', b";")
_JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="{PLAIN_PASSWORD}" '
    f'user_admin="{PLAIN_PASSWORD}" user_alice="{STORE_PASSWORD}";',
    f"org.apache.kafka.common.security.scram.ScramLoginModule required username=bob password='{SCRAM_PASSWORD}';",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required // comment\n"
    'unsecuredLoginStringClaim_sub="carol" /* another */ unsecuredValidatorRequiredScope="a b";',
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;",
)
RULES = (
    "DEFAULT",
    "RULE:^CN=([a-z]+),O=Tests$/$1/,DEFAULT",
    r"RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L, RULE:^.*$/\$0/U,DEFAULT",
    "RULE:(a*)*b/$1/",
)


class SecurityCorpus:
    """Draws messages, texts and mutations of them."""

    def __init__(self, random: Random, tokens: Sequence[str]) -> None:
        self._random = random
        self._tokens = tokens

    def sentence(self, sound: bytes) -> bytes:
        """Mutate a message of a mechanism, mostly where its grammar has its joints."""
        random = self._random
        mutated = bytearray(sound)
        for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
            start, size = random.randrange(len(mutated) + 1), random.choice((0, 1, 1, 2, 4, 16))
            match random.randrange(8):
                case 0:
                    mutated[start : start + size] = random.choice(_SEPARATORS)
                case 1:
                    mutated[start : start + size] = random.choice(NASTY_BYTES)
                case 2:
                    del mutated[start:]
                case 3:
                    mutated[start:start] = mutated[start : start + size] * random.choice((1, 2, 50))
                case 4 if start < len(mutated):
                    mutated[start] ^= 1 << random.randrange(8)
                case 5:
                    mutated += random.choice(_SEPARATORS)
                case 6:
                    mutated = bytearray(self._swapped(bytes(mutated)))
                case _:
                    del mutated[start : start + size]
        if random.random() < 0.002:
            mutated += mutated[-1:] * random.choice((9000, 70_000, 600_000))
        return bytes(mutated)

    def _swapped(self, message: bytes) -> bytes:
        """Exchange, repeat or leave out parts between separators."""
        random = self._random
        separator = random.choice((b",", b"\x00", b"\x01", b"."))
        parts = message.split(separator)
        first, second = random.randrange(len(parts)), random.randrange(len(parts))
        if random.random() < 0.5:
            parts[first], parts[second] = parts[second], parts[first]
        elif random.random() < 0.5:
            parts.insert(first, parts[second])
        else:
            del parts[first]
        return separator.join(parts)

    # --- messages

    def first_message(self, mechanism: str) -> bytes:
        """A client's first message of a mechanism; none of them lets anybody in."""
        if mechanism == "PLAIN":
            return self._plain()
        if mechanism == "OAUTHBEARER":
            return self._bearer()
        return self._scram_first()

    def _plain(self) -> bytes:
        user = self._random.choice(_USERS)
        authzid = self._random.choice(("", "", user, "admin"))
        return f"{authzid}\0{user}\0pw-{MARK}-{self._random.randrange(10)}".encode()

    def _scram_first(self) -> bytes:
        random = self._random
        header = random.choice(("n,,", "n,,", "n,,", "y,,", "p=tls-unique,,", "n,a=bob,", "n,a=admin,"))
        nonce = random.choice(("fyko+d2lbbFgONRv9qkxdawL", "x", "", "r" * 5000, "ä"))
        extension = random.choice(("", "", "", ",tokenaut=true", ",m=x", ",x=y"))
        if random.random() < 0.02:  # a thread looks tokens up, which takes long
            extension = random.choice((",tokenauth=true", ",tokenauth=false", ",tokenauth=TRUE,x=y"))
        name = random.choice((*_USERS, f"token-{random.randrange(9)}"))
        return f"{header}n={name},r={nonce}{extension}".encode()

    def scram_final(self, answer: bytes) -> bytes:
        """The second message, to the broker's answer, with a proof that is not right."""
        random = self._random
        nonce = answer.split(b",")[0][2:].decode(errors="replace")
        binding = random.choice(("biws", "biws", "biws", "eSws", "bixhPWJvYiw=", "", "****"))
        proof = base64.b64encode(random.randbytes(random.choice((32, 64, 0, 1, 20, 100)))).decode()
        return f"c={binding},r={nonce},p={proof}".encode()

    def _bearer(self) -> bytes:
        random = self._random
        token = random.choice((self.unsigned_token(), random.choice(self._tokens), f"{MARK}.{MARK}.{MARK}"))
        extension = random.choice(("", "", "\x01traceId=123", "\x01auth=again", "\x01logicalCluster=lkc"))
        return f"n,,\x01auth=Bearer {token}{extension}\x01\x01".encode()

    def unsigned_token(self) -> str:
        """A token that no issuer has signed."""
        random = self._random
        algorithm = random.choice(("none", "None", "HS256", "ES256", "RS256", "", 7))
        header = {"alg": algorithm, "kid": random.choice(("key-1", "x" * 2000, "../../x", None, 5))}
        claims: dict[str, object] = {
            "iss": random.choice((ISSUER, "https://evil.example", 5)),
            "aud": random.choice(("tailrace", ["tailrace"], [], {}, None)),
            "sub": random.choice(("alice", "", 5, None, [])),
            "exp": random.choice((2**40, 0, -1, 1e300, "soon", None, True)),
            "iat": random.choice((0, 2**63, "x", None)),
            "jti": MARK,
        }
        parts = (json.dumps(header), json.dumps(claims))
        signature = random.choice(("", "AAAA", "A" * 86))
        return ".".join([*(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts), signature])

    # --- texts of options

    def jaas(self) -> str:
        return self.sentence(self._random.choice(_JAAS).encode()).decode(errors="replace")

    def rules(self) -> str:
        return self.sentence(self._random.choice(RULES).encode())[:5000].decode(errors="replace")


def has_public_secret(mechanism: str, message: bytes) -> bool:
    """Whether a mutation has put a password where the name of a user stands, which the log may quote."""
    public = message.split(b"\0")[:2] if mechanism == "PLAIN" else message.split(b"\x01")[:1]
    return any(MARK.encode() in part for part in public)
