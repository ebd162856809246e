"""The log lines about clients that were not let in: one for each, up to a bound, and without secrets."""

import ssl
from collections.abc import Mapping
from typing import Final

from tailrace.base.clock import Clock
from tailrace.base.text import printable
from tailrace.server.bounded_log import BoundedLog
from tailrace.server.connection import Connection

_REASONS: Final[Mapping[str, str]] = {
    "HTTP_REQUEST": "the client speaks HTTP without TLS",
    "NO_SHARED_CIPHER": "client and broker have no cipher suite in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, and ssl.client.auth requires one",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to the client the broker's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the broker's certificate, or its host name",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the issuer of the broker's certificate",
    "UNSUPPORTED_PROTOCOL": "the client's version of TLS is not among ssl.enabled.protocols",
    "WRONG_VERSION_NUMBER": "the client speaks no TLS",
}
_WENT_AWAY: Final = "the client went away, as some do that do not accept the broker's certificate or its host name"


class FailureLog:
    """What is told about clients that were not let in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._log = BoundedLog(lambda count: f"{count} more clients were not let in, which are not logged one by one")

    def handshake(self, connection: Connection, error: Exception) -> None:
        """Log that a TLS handshake failed."""
        self._warn("no TLS with %s on listener %s: %s", connection, tls_reason(error))

    def login(self, connection: Connection, mechanism: str, reason: str) -> None:
        """Log that a login was refused; `mechanism` is one of the listener's, or empty if the client chose none."""
        by = f" by {mechanism}" if mechanism else ""
        self._warn(f"refused the login of %s on listener %s{by}: %s", connection, reason)

    def _warn(self, text: str, connection: Connection, reason: str) -> None:
        self._log.warn(self._clock.now_ms(), text, connection.peer, connection.listener_name, printable(reason))


def tls_reason(error: Exception) -> str:
    """Return why a handshake failed, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "", error.reason or str(error))
    if isinstance(error, TimeoutError):
        return "the handshake took too long"
    return _WENT_AWAY if is_departure(error) else str(error)


def is_departure(error: Exception) -> bool:
    """Return whether a handshake failed because the client left; a timeout of the event loop speaks of SSL."""
    return isinstance(error, ConnectionError) and "SSL" not in str(error)
