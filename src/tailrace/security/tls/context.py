"""The TLS contexts of servers and clients, from Kafka's options."""

import ssl
from collections.abc import Sequence
from typing import Final, Literal

from tailrace.security.tls.cipher import restrict
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.secret_file import secret_file
from tailrace.security.tls.store import KeyMaterial, Stores, read_key_material, read_trusted

ClientAuth = Literal["none", "requested", "required"]

_VERIFY_MODES: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def make_server_context(
    stores: Stores,
    client_auth: ClientAuth = "none",
    enabled_protocols: Sequence[str] = (),
    cipher_suites: Sequence[str] = (),
) -> ssl.SSLContext:
    """Return the context of a server, or raise `TlsConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION  # a client could make the server work for nothing
    restrict(context, enabled_protocols, cipher_suites)
    material = read_key_material(stores)
    if material is None:
        problem = "a server needs a key store: set ssl.keystore.location, or ssl.keystore.key with its certificates"
        raise TlsConfigError("ssl.keystore.location", problem)
    _load_key(context, material)
    if client_auth != "none" and not stores.has_trust:
        problem = f"ssl.client.auth={client_auth} needs a trust store with the certificates that verify clients"
        raise TlsConfigError("ssl.truststore.location", problem)
    _load_trust(context, stores)
    context.verify_mode = _VERIFY_MODES[client_auth]
    return context


def make_client_context(
    stores: Stores,
    *,
    checks_hostname: bool = True,
    enabled_protocols: Sequence[str] = (),
    cipher_suites: Sequence[str] = (),
) -> ssl.SSLContext:
    """Return the context of a client, or raise `TlsConfigError`.

    With a trust store the client trusts its certificates and no others; without one, those of the system.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_hostname
    restrict(context, enabled_protocols, cipher_suites)
    if not _load_trust(context, stores):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    material = read_key_material(stores)
    if material is not None:
        _load_key(context, material)
    return context


def _load_trust(context: ssl.SSLContext, stores: Stores) -> bool:
    trusted = read_trusted(stores)
    if trusted is None:
        return False
    # Java trusts what is in the store as it is, be it a root, an intermediate certificate or the peer's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=b"".join(block.decode() for block in trusted))
    except ssl.SSLError as error:
        option = "ssl.truststore.location" if stores.truststore_location else "ssl.truststore.certificates"
        place = stores.truststore_location or "the PEM text of the option"
        raise TlsConfigError(option, f"{place}: a certificate is not valid: {_reason(error)}") from None
    return True


def _load_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    text = material.key.text + "".join(block.text for block in material.chain)
    # An empty password keeps OpenSSL from asking for one at the terminal.
    password = material.password or ""
    with secret_file(text.encode()) as path:
        try:
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, ValueError) as error:
            reason = _reason(error)
            if reason == "KEY_VALUES_MISMATCH":
                raise material.source.error("the private key does not match the first certificate") from None
            if material.password:
                problem = f"{material.source}: the password of the private key is wrong, or the key is damaged"
                raise TlsConfigError(material.password_option, problem) from None
            raise material.source.error(f"OpenSSL cannot use the key with its certificates: {reason}") from None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or type(error).__name__
