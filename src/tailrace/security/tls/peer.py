"""The name of a TLS client, from its certificate."""

import ssl

from tailrace.security.distinguished_name import subject_name
from tailrace.security.principal_rule import PrincipalRules


def peer_name(tls: ssl.SSLObject | ssl.SSLSocket, rules: PrincipalRules) -> str | None:
    """Return the name of the client of a connection; None if it has shown no certificate.

    `tls` is a transport's `get_extra_info("ssl_object")`. Raise `NoMatchingRule` if no rule gives the certificate a
    name, and `MalformedCertificate` if its subject cannot be read; in both cases the client is refused.
    """
    certificate = tls.getpeercert(binary_form=True)
    return None if certificate is None else rules.name(subject_name(certificate))
