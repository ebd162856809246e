"""What went wrong with TLS, in a line that names the broker and says what to do."""

import ssl
from typing import Final

from tailrace.client.address import Address
from tailrace.client.error import AuthenticationError, BrokerUnavailable, ClientError

_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_WRONG_NAME: Final = (62, 64)
_UNTRUSTED: Final = (2, 18, 19, 20, 21)
"""The codes of OpenSSL for a chain that does not end at a trusted certificate."""

_TRUST: Final = "add the certificate of its authority to ssl.truststore.location (ssl.ca.location)"
_NAME: Final = "connect by a name that the certificate has, or set ssl.endpoint.identification.algorithm to empty"
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_ALERTS: Final = {
    "CERTIFICATE_REQUIRED": "asks for a certificate of the client: set ssl.keystore.location",
    "UNKNOWN_CA": "does not trust the certificate of this client, whose authority it does not know",
    "BAD_CERTIFICATE": "does not accept the certificate of this client, or asks for one (ssl.keystore.location)",
    "CERTIFICATE_UNKNOWN": "does not accept the certificate of this client: its trust store decides",
    "CERTIFICATE_EXPIRED": "says that the certificate of this client has expired: renew it",
    "CERTIFICATE_REVOKED": "says that the certificate of this client is revoked",
    "HANDSHAKE_FAILURE": "refuses the handshake: it may ask for a certificate (ssl.keystore.location) or other suites",
    "PROTOCOL_VERSION": "has no version of TLS in common with this client: see ssl.enabled.protocols",
}


def explain_tls(error: ssl.SSLError, address: Address) -> ClientError:
    """Return the error of a handshake or of a connection: `AuthenticationError` if trying again cannot help."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return closed_in_handshake(address)
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(_certificate_problem(error, address))
    reason = error.reason or ""
    if reason in _NOT_TLS:
        text = f"{address} does not speak TLS on this port"
        return AuthenticationError(f"{text}: use security.protocol PLAINTEXT or SASL_PLAINTEXT, or another port")
    for end, problem in _ALERTS.items():
        if reason.endswith(f"ALERT_{end}"):
            return AuthenticationError(f"{address} {problem}")
    if reason in ("UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"):
        return AuthenticationError(f"{address} {_ALERTS['PROTOCOL_VERSION']}")
    return AuthenticationError(f"TLS with {address} failed: {reason or type(error).__name__}")


def closed_in_handshake(address: Address) -> BrokerUnavailable:
    """Return the error of a connection that the broker closes without an alert."""
    return BrokerUnavailable(f"{address} closed the connection in the TLS handshake; does this port have TLS?")


def _certificate_problem(error: ssl.SSLCertVerificationError, address: Address) -> str:
    if error.verify_code == _EXPIRED:
        return f"the certificate of {address} has expired: renew it at the broker"
    if error.verify_code == _NOT_YET_VALID:
        return f"the certificate of {address} is not valid yet: check the clocks"
    if error.verify_code in _WRONG_NAME:
        return f"the certificate of {address} is not for the host name {address.host}: {_NAME}"
    if error.verify_code in _UNTRUSTED:
        return f"the certificate of {address} is not trusted ({error.verify_message}): {_TRUST}"
    return f"the certificate of {address} is not valid: {error.verify_message}"
