"""The client's side of a SCRAM login.

The client sends no password, and it is not logged in before the broker has proved that it knows the credential.
"""

import hmac
from enum import Enum

from tailrace.base.security_limits import SCRAM_CLIENT_ITERATIONS_MAX
from tailrace.security.exchange import AuthenticationFailed
from tailrace.security.gs2 import MalformedMessage
from tailrace.security.scram.mechanism import ITERATIONS_MIN, Mechanism, xor
from tailrace.security.scram.message import (
    auth_message,
    client_final,
    client_first,
    parse_server_final,
    parse_server_first,
    without_proof,
)


class _State(Enum):
    START = 0
    FIRST = 1
    FINAL = 2
    COMPLETE = 3
    FAILED = 4


class ScramClient:
    """One login. With `is_token`, the user and the password are the id and the HMAC of a delegation token."""

    def __init__(
        self,
        mechanism: Mechanism,
        user: str,
        password: str,
        nonce: str,
        *,
        is_token: bool = False,
        salted_passwords: dict[tuple[bytes, int], bytes] | None = None,
    ) -> None:
        """`salted_passwords` keeps the stretched password by salt and iterations, for the next login of the user."""
        self._mechanism = mechanism
        self._password = password
        self._salted_passwords = {} if salted_passwords is None else salted_passwords
        self._first = client_first(user, nonce, is_token=is_token)
        self._state = _State.START

    @property
    def is_complete(self) -> bool:
        return self._state is _State.COMPLETE

    def start(self) -> bytes:
        """Return the first message."""
        self._state = _State.FIRST
        return f"{self._first.header.text}{self._first.bare}".encode()

    def respond(self, message: bytes) -> bytes | None:
        """Return the answer to the broker's message, or raise `AuthenticationFailed`.

        The answer to the first message stretches the password, which takes milliseconds: call it beside the event loop.
        """
        state, self._state = self._state, _State.FAILED  # until the message has been accepted
        try:
            if state is _State.FIRST:
                answer = self._prove(message)
                self._state = _State.FINAL
                return answer
            if state is _State.FINAL:
                self._verify(message)
                self._state = _State.COMPLETE
                return None
        except MalformedMessage as error:
            raise self._failed(f"the broker sent a malformed message: {error}") from None
        raise self._failed(f"the broker sent a message in the state {state.name}")

    def _prove(self, message: bytes) -> bytes:
        answer = parse_server_first(message)
        if not (answer.nonce.startswith(self._first.nonce) and len(answer.nonce) > len(self._first.nonce)):
            raise self._failed("the broker's nonce does not continue the client's")
        if not ITERATIONS_MIN <= answer.iterations <= SCRAM_CLIENT_ITERATIONS_MAX:
            raise self._failed(
                f"the broker asks for {answer.iterations} iterations, at least {ITERATIONS_MIN} are safe"
            )
        salted = self._salt(answer.salt, answer.iterations)
        without = without_proof(self._first.header, answer.nonce)
        signed = auth_message(self._first, answer, without)
        client_key = self._mechanism.client_key(salted)
        signature = self._mechanism.hmac(self._mechanism.hash(client_key), signed)
        self._expected = self._mechanism.hmac(self._mechanism.server_key(salted), signed)
        return client_final(without, xor(client_key, signature))

    def _salt(self, salt: bytes, iterations: int) -> bytes:
        known = self._salted_passwords.get((salt, iterations))
        if known is None:
            known = self._mechanism.salted_password(self._password, salt, iterations)
            self._salted_passwords.clear()  # a broker that gives another salt each time does not fill the memory
            self._salted_passwords[salt, iterations] = known
        return known

    def _verify(self, message: bytes) -> None:
        final = parse_server_final(message)
        if final.error is not None:
            raise self._failed(f"the broker refuses: {final.error}")
        if not hmac.compare_digest(final.signature, self._expected):
            raise self._failed("the broker does not know the password")

    def _failed(self, reason: str) -> AuthenticationFailed:
        text = f"Authentication with {self._mechanism.name} failed: {reason}"
        return AuthenticationFailed(text, text)
