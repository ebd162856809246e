"""Broker options of the connection to ZooKeeper."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tailrace.config.check import PEM_ONLY, PORT_MAX, Check, at_least, one_of
from tailrace.config.declaration import boolean, integer, nullable_integer, nullable_string, password, string
from tailrace.config.error import ConfigError
from tailrace.config.inert import inert
from tailrace.config.option import Importance
from tailrace.config.unit import SECOND_MS

_PORT_DEFAULT = 2181
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_PATH = re.compile(r"(/[^/\s]+)*")


class ZooKeeperAddress(NamedTuple):
    """The servers as host:port pairs separated by commas, and the path of the cluster."""

    servers: str
    root: str


def parse_connect(text: str) -> ZooKeeperAddress:
    """Parse `HOST:PORT,HOST:PORT/PATH`, or raise ValueError."""
    hosts, slash, path = text.partition("/")
    root = (slash + path).rstrip("/")
    servers = []
    for part in hosts.split(","):
        match = _SERVER.fullmatch(part.strip())
        port = int((match and match["port"]) or _PORT_DEFAULT)
        if match is None or not 0 < port <= PORT_MAX:
            raise ValueError(f"{part.strip()!r} is not of the form HOST:PORT")
        servers.append(f"{match['host']}:{port}")
    if not _PATH.fullmatch(root) or {".", ".."} & set(root.split("/")):
        raise ValueError(f"{root!r} is not a path")
    return ZooKeeperAddress(",".join(servers), root)


def _can_connect(text: str) -> bool:
    try:
        parse_connect(text)
    except ValueError:
        return False
    return True


_CONNECT: Check[str] = Check("HOST:PORT,HOST:PORT,… with a path such as /tailrace at the end, or none", _can_connect)
_DIGEST: Check[str] = Check("USER:PASSWORD", lambda text: 0 < text.find(":") < len(text) - 1)


class ZooKeeperOptions:
    """The options of the connection to ZooKeeper: addresses, timeouts, TLS and authentication."""

    zookeeper_connect = nullable_string(
        "zookeeper.connect",
        "ZooKeeper servers of the cluster, as HOST:PORT,HOST:PORT/PATH. The path separates several clusters in one "
        "ZooKeeper, and is created if it does not exist. A broker without this option is a cluster of its own and "
        "keeps its metadata in its first log folder. Needs the extra tailrace[cluster].",
        check=_CONNECT,
        importance=Importance.HIGH,
    )
    zookeeper_session_timeout_ms = integer(
        "zookeeper.session.timeout.ms",
        18 * SECOND_MS,
        "Time after which a broker that ZooKeeper does not hear from is considered dead. A broker that cannot reach "
        "ZooKeeper stops acknowledging earlier. ZooKeeper's own limits may change the value.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    zookeeper_connection_timeout_ms = nullable_integer(
        "zookeeper.connection.timeout.ms",
        "Time that a starting broker waits for ZooKeeper. If it is not set, `zookeeper.session.timeout.ms` is used.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    zookeeper_set_acl = boolean(
        "zookeeper.set.acl",
        False,
        "Whether only the brokers of the cluster may read and change what they write to ZooKeeper. Needs "
        "`tailrace.zookeeper.sasl.jaas.config` or `tailrace.zookeeper.digest`. Kafka leaves most of its data readable "
        "to every client.",
        importance=Importance.HIGH,
    )
    zookeeper_ssl_client_enable = boolean(
        "zookeeper.ssl.client.enable", False, "Whether the broker uses TLS to ZooKeeper.", importance=Importance.MEDIUM
    )
    zookeeper_ssl_keystore_location = nullable_string(
        "zookeeper.ssl.keystore.location",
        "PEM file with the private key and certificates that authenticate the broker to ZooKeeper.",
    )
    zookeeper_ssl_keystore_password = password(
        "zookeeper.ssl.keystore.password", "Password of the private key, if it has one."
    )
    zookeeper_ssl_keystore_type = string(
        "zookeeper.ssl.keystore.type", "PEM", "Format of the keystore.", check=PEM_ONLY
    )
    zookeeper_ssl_truststore_location = nullable_string(
        "zookeeper.ssl.truststore.location",
        "PEM file with the certificates that verify ZooKeeper's certificate. If it is not set, those of the system "
        "are used.",
    )
    zookeeper_ssl_truststore_type = string(
        "zookeeper.ssl.truststore.type", "PEM", "Format of the truststore.", check=PEM_ONLY
    )
    zookeeper_ssl_endpoint_identification_algorithm = string(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "HTTPS",
        "Whether ZooKeeper's certificate must contain the host name of the connection: HTTPS, or empty for no.",
        check=one_of("HTTPS", "https", ""),
        importance=Importance.LOW,
    )
    tailrace_zookeeper_digest = password(
        "tailrace.zookeeper.digest",
        "USER:PASSWORD that authenticates the brokers of a cluster to ZooKeeper (its scheme digest). It is sent in "
        "plain text, so use TLS.",
        check=_DIGEST,
    )
    tailrace_zookeeper_sasl_jaas_config = password(
        "tailrace.zookeeper.sasl.jaas.config",
        "Login of the brokers of a cluster at ZooKeeper with SASL (DIGEST-MD5): the text that the section Client of "
        'Kafka\'s JAAS file has, `org.apache.zookeeper.server.auth.DigestLoginModule required username="NAME" '
        'password="PASSWORD";`. Nodes that `zookeeper.set.acl` protects belong to `sasl:NAME`. The password is not '
        "sent, but a recorded login allows testing guesses, so use TLS.",
    )


ZOOKEEPER_INERT_OPTIONS = inert(
    "Tailrace has its own ZooKeeper client",
    nullable_string("zookeeper.clientCnxnSocket", "The Java class of the connection."),
    integer("zookeeper.max.in.flight.requests", 10, "How many requests may wait for answers.", check=at_least(1)),
    string("zookeeper.ssl.protocol", "TLSv1.2", "The protocol of TLS; versions 1.2 and 1.3 are spoken."),
)


def zookeeper_problems(value: Callable[[str], Any]) -> Iterator[ConfigError]:
    """Yield the errors between these options; `value` returns the value of an option by its name."""
    logins = ("tailrace.zookeeper.sasl.jaas.config", "tailrace.zookeeper.digest")
    if value("zookeeper.set.acl") and all(value(name) is None for name in logins):
        message = f"zookeeper.set.acl needs {' or '.join(logins)}: without it the broker cannot read what it wrote"
        yield ConfigError("zookeeper.set.acl", message)
