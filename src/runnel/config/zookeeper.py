"""Broker options of the ZooKeeper that a cluster coordinates through."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from runnel.config.check import PORT_MAX, Check, at_least, one_of, only
from runnel.config.declaration import boolean, integer, nullable_integer, nullable_string, password, string
from runnel.config.error import ConfigError
from runnel.config.inert import inert
from runnel.config.option import Importance
from runnel.config.unit import SECOND_MS

_PORT_DEFAULT = 2181
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_PATH = re.compile(r"(/[^/\s]+)*")
_PEM = "keys and certificates are read from PEM files; openssl pkcs12 makes one of a Java keystore"


class ZooKeeperAddress(NamedTuple):
    """The servers as host:port pairs with commas between them, and the path below which the cluster lives."""

    servers: str
    root: str


def parse_connect(text: str) -> ZooKeeperAddress:
    """Read `HOST:PORT,HOST:PORT/PATH`; raises ValueError."""
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
        raise ValueError(f"{root!r} is no path")
    return ZooKeeperAddress(",".join(servers), root)


def _can_connect(text: str) -> bool:
    try:
        parse_connect(text)
    except ValueError:
        return False
    return True


_CONNECT: Check[str] = Check("HOST:PORT,HOST:PORT,… with a path such as /runnel at the end, or none", _can_connect)
_DIGEST: Check[str] = Check("USER:PASSWORD", lambda text: 0 < text.find(":") < len(text) - 1)


class ZooKeeperOptions:
    """Where ZooKeeper is, how patient the broker is with it, and how it is let in."""

    zookeeper_connect = nullable_string(
        "zookeeper.connect",
        "The ZooKeeper servers of the cluster, as HOST:PORT,HOST:PORT/PATH. The path keeps several clusters in one "
        "ZooKeeper apart and is made if it is not there. A broker without this option is a cluster by itself and keeps "
        "its metadata in its first log folder. Needs the extra runnel[cluster].",
        check=_CONNECT,
        importance=Importance.HIGH,
    )
    zookeeper_session_timeout_ms = integer(
        "zookeeper.session.timeout.ms",
        18 * SECOND_MS,
        "After how long without a sign of life a broker counts as gone. A broker that cannot reach ZooKeeper stops "
        "acknowledging before. ZooKeeper may grant more or less, by its own limits.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    zookeeper_connection_timeout_ms = nullable_integer(
        "zookeeper.connection.timeout.ms",
        "How long a broker waits for ZooKeeper when it starts; zookeeper.session.timeout.ms if it is not set.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    zookeeper_set_acl = boolean(
        "zookeeper.set.acl",
        False,
        "Whether only who is authenticated as this broker is may read and change what it writes to ZooKeeper. "
        "Needs runnel.zookeeper.digest. Kafka leaves most of it readable for all.",
        importance=Importance.HIGH,
    )
    zookeeper_ssl_client_enable = boolean(
        "zookeeper.ssl.client.enable", False, "Whether to speak TLS with ZooKeeper.", importance=Importance.MEDIUM
    )
    zookeeper_ssl_keystore_location = nullable_string(
        "zookeeper.ssl.keystore.location",
        "A PEM file with the private key and the certificates by which the broker shows ZooKeeper who it is.",
    )
    zookeeper_ssl_keystore_password = password(
        "zookeeper.ssl.keystore.password", "The password of the private key, if it has one."
    )
    zookeeper_ssl_keystore_type = string(
        "zookeeper.ssl.keystore.type", "PEM", "The format of the keystore.", check=only("PEM", _PEM)
    )
    zookeeper_ssl_truststore_location = nullable_string(
        "zookeeper.ssl.truststore.location",
        "A PEM file with the certificates that ZooKeeper's own is checked against; those of the system if it is not "
        "set.",
    )
    zookeeper_ssl_truststore_type = string(
        "zookeeper.ssl.truststore.type", "PEM", "The format of the truststore.", check=only("PEM", _PEM)
    )
    zookeeper_ssl_endpoint_identification_algorithm = string(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "HTTPS",
        "Whether ZooKeeper's certificate must name the host that was connected to: HTTPS, or empty for no.",
        check=one_of("HTTPS", "https", ""),
        importance=Importance.LOW,
    )
    runnel_zookeeper_digest = password(
        "runnel.zookeeper.digest",
        "USER:PASSWORD by which ZooKeeper knows this broker (its scheme digest); the same for all brokers of a "
        "cluster. Kafka configures it with JAAS. It travels as it is, so use TLS.",
        check=_DIGEST,
    )


ZOOKEEPER_INERT_OPTIONS = inert(
    "Runnel's connection to ZooKeeper is its own",
    nullable_string("zookeeper.clientCnxnSocket", "The Java class of the connection."),
    integer("zookeeper.max.in.flight.requests", 10, "How many requests may wait for answers.", check=at_least(1)),
    string("zookeeper.ssl.protocol", "TLSv1.2", "The protocol of TLS; versions 1.2 and 1.3 are spoken."),
)


def zookeeper_problems(value: Callable[[str], Any]) -> Iterator[ConfigError]:
    """Yield what is wrong with these options together; `value` gives the value of an option by its name."""
    if value("zookeeper.set.acl") and value("runnel.zookeeper.digest") is None:
        message = "zookeeper.set.acl needs runnel.zookeeper.digest: nobody could read what nobody in particular wrote"
        yield ConfigError("zookeeper.set.acl", message)
