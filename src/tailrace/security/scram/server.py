"""The broker's side of a SCRAM login.

The client names a user, the broker answers with the user's salt and a nonce, the client proves that it knows the
password, and the broker proves that it knows the credential:

| state | message of the client | answer | next state |
| --- | --- | --- | --- |
| FIRST | user and nonce | joined nonce, salt, iterations | FINAL |
| FINAL | nonce and proof | signature | COMPLETE |
| any | anything else | `AuthenticationFailed` | FAILED |

A user without a credential goes through the same steps with a decoy, and so fails when a wrong password would, after
the same work. Kafka's broker fails such a user in the first step.
"""

import hmac
from enum import Enum
from typing import NamedTuple, Protocol

from tailrace.security.exchange import AuthenticationFailed, Identity, invalid_credentials
from tailrace.security.gs2 import MalformedMessage
from tailrace.security.scram.credential import Credential, Decoys
from tailrace.security.scram.mechanism import ITERATIONS_MIN, Mechanism, xor
from tailrace.security.scram.message import (
    ClientFirst,
    ServerFirst,
    auth_message,
    parse_client_final,
    parse_client_first,
    server_final,
    server_first,
)


class TokenCredential(NamedTuple):
    """The credential of a delegation token, the user that owns it, and when it expires."""

    credential: Credential
    owner: str
    expires_at_ms: int


class CredentialStore(Protocol):
    """The credentials for one mechanism."""

    def user(self, name: str) -> Credential | None:
        """Return the credential of a user."""
        ...

    def token(self, token_id: str) -> TokenCredential | None:
        """Return the credential of a delegation token that has not expired."""
        ...


class _State(Enum):
    FIRST = 0
    FINAL = 1
    COMPLETE = 2
    FAILED = 3


class ScramServer:
    """One login. `nonce` is random text that is used once, of printable letters without a comma."""

    def __init__(
        self, mechanism: Mechanism, store: CredentialStore, decoys: Decoys, nonce: str, *, is_again: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._store = store
        self._decoys = decoys
        self._nonce = nonce
        self._public_text = invalid_credentials(mechanism.name, is_again=is_again)
        self._state = _State.FIRST
        self._problem: str | None = None
        self._candidate: Identity | None = None

    @property
    def identity(self) -> Identity | None:
        return self._candidate if self._state is _State.COMPLETE else None

    def respond(self, message: bytes) -> bytes:
        """Return the answer to the client's next message, or raise `AuthenticationFailed`."""
        state, self._state = self._state, _State.FAILED  # until the message has been accepted
        try:
            match state:
                case _State.FIRST:
                    answer, self._state = self._challenge(parse_client_first(message)), _State.FINAL
                case _State.FINAL:
                    answer, self._state = self._verify(message), _State.COMPLETE
                case _:
                    raise self._failed(f"a message arrived in the state {state.name}")
        except MalformedMessage as error:
            raise self._failed(f"malformed {self._mechanism.name} message: {error}") from None
        return answer

    def _challenge(self, first: ClientFirst) -> bytes:
        if first.header.authzid not in ("", first.user):
            raise self._failed(f"user {first.user} may not act as {first.header.authzid}")
        self._first: ClientFirst = first
        self._credential = self._look_up(first)
        nonce = first.nonce + self._nonce
        self._answer: ServerFirst = server_first(nonce, self._credential.salt, self._credential.iterations)
        return self._answer.text.encode()

    def _look_up(self, first: ClientFirst) -> Credential:
        """Return the credential of the user, or a decoy; the problem with the user is reported at the end."""
        credential: Credential | None
        if first.is_token:
            found = self._store.token(first.user)
            credential = found.credential if found is not None else None
            self._problem = f"delegation token {first.user} does not exist or has expired"
            if found is not None:
                self._candidate = Identity(found.owner, found.expires_at_ms, is_token=True)
        else:
            credential = self._store.user(first.user)
            self._problem = f"user {first.user} has no credential for {self._mechanism.name}"
            self._candidate = Identity(first.user)
        # The decoy is computed for known users too, so that its cost does not tell them apart.
        decoy = self._decoys.credential(self._mechanism, first.user)
        if credential is None:
            return decoy
        if credential.iterations < ITERATIONS_MIN:
            self._problem = f"the credential of {first.user} has fewer than {ITERATIONS_MIN} iterations"
            return decoy
        self._problem = None
        return credential

    def _verify(self, message: bytes) -> bytes:
        final = parse_client_final(message)
        if not hmac.compare_digest(final.nonce.encode(), self._answer.nonce.encode()):
            raise self._failed(f"{self._first.user} repeated another nonce")
        if not hmac.compare_digest(final.channel_binding, self._first.header.text.encode()):
            raise self._failed(f"{self._first.user} repeated another GS2 header: it was changed on the way")
        if len(final.proof) != self._mechanism.key_size_bytes:
            raise self._failed(f"the proof of {self._first.user} has a wrong length")
        signed = auth_message(self._first, self._answer, final.without_proof)
        client_key = xor(final.proof, self._mechanism.hmac(self._credential.stored_key, signed))
        fits = hmac.compare_digest(self._mechanism.hash(client_key), self._credential.stored_key)
        if self._problem is not None or not fits:
            raise self._failed(self._problem or f"wrong password of {self._first.user}")
        return server_final(self._mechanism.hmac(self._credential.server_key, signed))

    def _failed(self, reason: str) -> AuthenticationFailed:
        return AuthenticationFailed(reason, self._public_text)
