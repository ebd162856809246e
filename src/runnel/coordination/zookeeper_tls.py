"""TLS to ZooKeeper, from PEM files."""

import ssl


def make_context(
    truststore: str | None, keystore: str | None, key_password: str | None, *, checks_hostname: bool
) -> ssl.SSLContext:
    """The context of a client; raises OSError when a file cannot be read or holds no such thing."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    if truststore is not None:
        # Only what is in the file is trusted then, and not the system's certificates as well.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(truststore)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = checks_hostname
    if keystore is not None:
        # A password that is not given is no reason to ask for it at the terminal.
        context.load_cert_chain(keystore, password=key_password or "")
    return context
