"""The client's side of a DIGEST-MD5 login (RFC 2831), the mechanism with a password that ZooKeeper has.

The server speaks first. The client proves that it knows the password without sending it, and the server then proves the
same. The mechanism is obsolete (RFC 6331): a listener who records a login can test guessed passwords at the speed of
MD5. So connections should use TLS. Only the protection `auth` is supported: nothing after the login is signed or
encrypted by SASL.
"""

import hashlib
import hmac
import re
from enum import Enum
from typing import Final, NamedTuple

from tailrace.base.security_limits import DIGEST_MESSAGE_BYTES_MAX
from tailrace.security.exchange import AuthenticationFailed
from tailrace.security.gs2 import MalformedMessage, decode_text

_DIRECTIVE = re.compile(
    r"""(?P<name>[A-Za-z-]+) \s*=\s*
        (?: "(?P<quoted>(?:[^"\\]|\\.)*)" | (?P<token>[A-Za-z0-9!#$%&'*+.^_`|~-]+) )
        \s* (?: ,[\s,]* | \Z )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NONCE_COUNT: Final = "00000001"
_ALGORITHM: Final = "md5-sess"
_PROTECTION: Final = "auth"
_CHARSET: Final = "utf-8"


class _State(Enum):
    START = 0
    CHALLENGE = 1
    PROOF = 2
    COMPLETE = 3
    FAILED = 4


class _Challenge(NamedTuple):
    realm: str | None
    nonce: str
    is_utf8: bool


class DigestMd5Client:
    """One login. `digest_uri` is the name of the service, and `nonce` a text that no other login has."""

    def __init__(self, user: str, password: str, digest_uri: str, nonce: str) -> None:
        self._user = user
        self._password = password
        self._digest_uri = digest_uri
        self._nonce = nonce
        self._state = _State.START
        self._expected = ""

    @property
    def is_complete(self) -> bool:
        return self._state is _State.COMPLETE

    def start(self) -> bytes:
        """Return the first message, which is empty and asks for the challenge."""
        self._state = _State.CHALLENGE
        return b""

    def respond(self, message: bytes) -> bytes | None:
        """Return the answer to the challenge, or None after the server's proof; raise `AuthenticationFailed`."""
        state, self._state = self._state, _State.FAILED  # until the message has been accepted
        try:
            directives = _parse(decode_text(message, DIGEST_MESSAGE_BYTES_MAX))
            if state is _State.CHALLENGE:
                answer = self._prove(_read_challenge(directives))
                self._state = _State.PROOF
                return answer
            if state is _State.PROOF:
                self._verify(directives)
                self._state = _State.COMPLETE
                return None
        except MalformedMessage as error:
            raise _failed(f"the server sent a malformed message: {error}") from None
        raise _failed(f"the server sent a message in the state {state.name}")

    def _prove(self, challenge: _Challenge) -> bytes:
        key = self._key(challenge)
        self._expected = self._signature(key, challenge, "")
        directives = {
            "charset": _CHARSET if challenge.is_utf8 else None,
            "username": _quote(self._user),
            "realm": None if challenge.realm is None else _quote(challenge.realm),
            "nonce": _quote(challenge.nonce),
            "nc": _NONCE_COUNT,
            "cnonce": _quote(self._nonce),
            "digest-uri": _quote(self._digest_uri),
            "qop": _PROTECTION,
            "response": self._signature(key, challenge, "AUTHENTICATE"),
        }
        text = ",".join(f"{name}={value}" for name, value in directives.items() if value is not None)
        try:
            return text.encode("utf-8" if challenge.is_utf8 else "iso-8859-1")
        except UnicodeEncodeError:
            raise _failed("the server does not know UTF-8, which the name of the user needs") from None

    def _key(self, challenge: _Challenge) -> bytes:
        """Return the session key, from which both sides derive their proofs."""
        secret = _hash(b":".join(map(_narrow, (self._user, challenge.realm or "", self._password))))
        return secret + f":{challenge.nonce}:{self._nonce}".encode()

    def _signature(self, key: bytes, challenge: _Challenge, purpose: str) -> str:
        task = _hash(f"{purpose}:{self._digest_uri}".encode()).hex()
        parts = (_hash(key).hex(), challenge.nonce, _NONCE_COUNT, self._nonce, _PROTECTION, task)
        return _hash(":".join(parts).encode()).hex()

    def _verify(self, directives: dict[str, list[str]]) -> None:
        proof = _only(directives, "rspauth")
        if proof is None or not hmac.compare_digest(proof.encode(), self._expected.encode()):
            raise _failed("the server does not know the password")


def _read_challenge(directives: dict[str, list[str]]) -> _Challenge:
    nonce, algorithm = _only(directives, "nonce"), _only(directives, "algorithm")
    if not nonce:
        raise MalformedMessage("the challenge has no nonce")
    if algorithm != _ALGORITHM:
        raise MalformedMessage(f"the algorithm is not {_ALGORITHM}")
    offered = _only(directives, "qop")
    if offered is not None and _PROTECTION not in re.split(r"[\s,]+", offered.strip().lower()):
        raise _failed(f"the server demands to sign or encrypt every message, and only qop={_PROTECTION} is supported")
    realms = directives.get("realm")
    charset = _only(directives, "charset")
    return _Challenge(realms[0] if realms else None, nonce, charset is not None and charset.lower() == _CHARSET)


def _parse(text: str) -> dict[str, list[str]]:
    """Return the values of each directive by its name in lower case."""
    directives: dict[str, list[str]] = {}
    rest = text.lstrip(" \t\r\n,")
    while rest:
        match = _DIRECTIVE.match(rest)
        if match is None:
            raise MalformedMessage(f"directive {sum(map(len, directives.values())) + 1} is not of the form NAME=VALUE")
        value = match["token"] if match["quoted"] is None else _ESCAPE.sub(r"\1", match["quoted"])
        directives.setdefault(match["name"].lower(), []).append(value)
        rest = rest[match.end() :]
    return directives


def _only(directives: dict[str, list[str]], name: str) -> str | None:
    values = directives.get(name, [])
    if len(values) > 1:
        raise MalformedMessage(f"the directive {name} is given twice")
    return values[0] if values else None


def _narrow(text: str) -> bytes:
    """Encode text for a digest: as ISO 8859-1 if that has all of its characters, else as UTF-8."""
    try:
        return text.encode("iso-8859-1")
    except UnicodeEncodeError:
        return text.encode()


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _hash(data: bytes) -> bytes:
    return hashlib.md5(data).digest()  # noqa: S324  the mechanism has no other


def _failed(reason: str) -> AuthenticationFailed:
    text = f"Authentication with DIGEST-MD5 failed: {reason}"
    return AuthenticationFailed(text, text)
