"""Broker options of TLS: the key and certificates of the broker, and those that it trusts."""

from tailrace.config.check import Check, non_empty_list, one_of
from tailrace.config.declaration import nullable_string, nullable_string_list, password, string, string_list
from tailrace.config.option import Importance, UpdateMode

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
_STORE_TYPES = one_of("JKS", "PEM", "PKCS12")
_VERSIONS: Check[tuple[str, ...]] = Check(
    f"a list of {' and '.join(TLS_VERSIONS)}", lambda items: bool(items) and set(items) <= set(TLS_VERSIONS)
)


class TlsOptions:
    """The options of TLS. A listener may have its own, as `listener.name.NAME.ssl.…`."""

    ssl_protocol = string(
        "ssl.protocol",
        "TLSv1.3",
        "Highest version of TLS that is offered, if `ssl.enabled.protocols` has it too.",
        check=one_of("TLS", *TLS_VERSIONS),
    )
    ssl_enabled_protocols = string_list(
        "ssl.enabled.protocols", TLS_VERSIONS, "Versions of TLS that clients may use.", check=_VERSIONS
    )
    ssl_cipher_suites = nullable_string_list(
        "ssl.cipher.suites",
        "Cipher suites that clients may use, by the names of the standard or of OpenSSL. If it is not set, OpenSSL's "
        "selection is used.",
        check=non_empty_list(),
        importance=Importance.LOW,
    )
    ssl_keystore_type = string(
        "ssl.keystore.type",
        "JKS",
        "Format of the keystore: PEM or PKCS12. With Kafka's default, JKS, the broker looks at the file; a file that "
        "is really in Java's format is refused.",
        check=_STORE_TYPES,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_keystore_location = nullable_string(
        "ssl.keystore.location",
        "File with the private key and the certificates of the broker. New connections use a changed file at once.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_keystore_password = password(
        "ssl.keystore.password",
        "Password of a PKCS12 keystore.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_keystore_key = password(
        "ssl.keystore.key",
        "Private key of the broker in PEM, in place of a file.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_keystore_certificate_chain = password(
        "ssl.keystore.certificate.chain",
        "Certificates of the broker in PEM, for `ssl.keystore.key`.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_key_password = password(
        "ssl.key.password",
        "Password of the private key, if it is encrypted.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_truststore_type = string(
        "ssl.truststore.type",
        "JKS",
        "Format of the truststore, as for `ssl.keystore.type`.",
        check=_STORE_TYPES,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_truststore_location = nullable_string(
        "ssl.truststore.location",
        "File with the certificates that verify those of clients and of other brokers. If nothing is set, those of "
        "the system are used for other brokers.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_truststore_password = password(
        "ssl.truststore.password",
        "Password of a PKCS12 truststore.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_truststore_certificates = password(
        "ssl.truststore.certificates",
        "Trusted certificates in PEM, in place of a file.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.PER_BROKER,
    )
    ssl_client_auth = string(
        "ssl.client.auth",
        "none",
        "Whether clients need a certificate: required, requested (it may be missing), or none.",
        check=one_of("none", "requested", "required"),
    )
    ssl_principal_mapping_rules = string(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "Rules that make a user name of the subject of a client's certificate. DEFAULT takes the whole subject.",
        importance=Importance.LOW,
    )
    ssl_endpoint_identification_algorithm = string(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Whether the certificate of another broker must contain its host name: https, or empty for no.",
        check=Check("https or empty", lambda text: text.lower() in ("https", "")),
        importance=Importance.LOW,
    )
