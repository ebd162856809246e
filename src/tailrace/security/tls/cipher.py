"""The protocol versions and cipher suites of TLS, under the names that Kafka's options have for them."""

import re
import ssl
from collections.abc import Sequence
from typing import Final

from tailrace.security.tls.error import TlsConfigError

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_PROTOCOLS: Final = "ssl.enabled.protocols"
_CIPHERS: Final = "ssl.cipher.suites"


def restrict(context: ssl.SSLContext, protocols: Sequence[str], cipher_suites: Sequence[str]) -> None:
    """Let a context speak these versions of TLS with these suites; none means 1.2 and 1.3, and OpenSSL's suites.

    Suites have the names of Java and the RFCs, or OpenSSL's. Python cannot choose among the suites of TLS 1.3: they
    are all named or none of them is, and then TLS 1.3 is not spoken, as in Java.
    """
    enabled = [_version(name) for name in protocols] or list(VERSIONS.values())
    if cipher_suites:
        modern = [name for name in cipher_suites if name in _SUITES_1_3]
        older = [_openssl_name(name) for name in cipher_suites if name not in _SUITES_1_3]
        if modern and len(set(modern)) < len(_SUITES_1_3):
            problem = f"Python cannot choose among the suites of TLS 1.3: name all of {', '.join(_SUITES_1_3)}, or none"
            raise TlsConfigError(_CIPHERS, problem)
        possible = [VERSIONS["TLSv1.2"]] * bool(older) + [VERSIONS["TLSv1.3"]] * bool(modern)
        enabled = [version for version in enabled if version in possible]
        if not enabled:
            raise TlsConfigError(_CIPHERS, f"no suite is for a version of TLS that {_PROTOCOLS} allows")
        if older:
            context.set_ciphers(":".join(older))
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)


def _version(name: str) -> ssl.TLSVersion:
    try:
        return VERSIONS[name]
    except KeyError:
        raise TlsConfigError(_PROTOCOLS, f"{name} is not supported; supported are {', '.join(VERSIONS)}") from None


def _openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite for TLS 1.2, such as ECDHE-RSA-AES128-GCM-SHA256, or raise."""
    found = name
    if name.startswith("TLS_"):
        exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
        cipher = re.sub(r"AES_([0-9]+)", r"AES\1", cipher).replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305")
        found = ("" if exchange == "RSA" else f"{exchange}_") + cipher
        found = found.replace("_", "-")
    if found not in _openssl_suites():
        raise TlsConfigError(_CIPHERS, f"the suite {name} is not known to {ssl.OPENSSL_VERSION}, or is too weak")
    return found


def _openssl_suites() -> set[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:!aNULL:!eNULL")
    return {str(suite["name"]) for suite in context.get_ciphers()}
