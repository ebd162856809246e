"""The jars, the configuration and the command line of a ZooKeeper server.

The jars come with PySpark, which has them for Spark's own use; a server needs a dozen of them. Naming
only those halves the start time.
"""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

_JARS = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-1.2-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "netty-*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
    "audience-annotations-*.jar",
)

SETTINGS: Mapping[str, str] = {
    "tickTime": "500",
    "initLimit": "20",
    "syncLimit": "10",
    # Session timeouts from the shortest useful one to the longest that Kafka's brokers request.
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxCnxns": "1000",
    "autopurge.snapRetainCount": "3",
    "autopurge.purgeInterval": "1",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,mntr,envi,conf",
}
"""The differences from ZooKeeper's defaults: failures are detected sooner, and no other port is opened."""

_LOGIN_SETTINGS = {
    "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "sessionRequireClientSASLAuth": "true",
}
"""The settings of a server with a JAAS file: clients have to log in with SASL before they can do anything."""

_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %p zookeeper: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
# Warns that there is no ensemble, which is intended for a single server.
logger.main.name = org.apache.zookeeper.server.quorum.QuorumPeerMain
logger.main.level = error
logger.config.name = org.apache.zookeeper.server.quorum.QuorumPeerConfig
logger.config.level = error
# Warns when its status is requested during the start.
logger.connection.name = org.apache.zookeeper.server.ServerCnxn
logger.connection.level = off
"""


class ZooKeeperMissingError(Exception):
    """The jars of a ZooKeeper server are missing."""


def find_jars() -> list[Path]:
    """Return the jars of a ZooKeeper server among those of PySpark, without importing PySpark."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ZooKeeperMissingError(
            "the ZooKeeper server needs the jars of PySpark, which is not installed: install the extra "
            "tailrace[spark], or run your own ZooKeeper and set zookeeper.connect"
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars"
    jars = [jar for pattern in _JARS for jar in sorted(folder.glob(pattern))]
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise ZooKeeperMissingError(f"no ZooKeeper jar in {folder}; reinstall PySpark")
    return jars


def write_configuration(
    folder: Path,
    host: str,
    port: int,
    *,
    server_id: int | None = None,
    servers: Mapping[int, str] | None = None,
    settings: Mapping[str, str] | None = None,
    has_logins: bool = False,
) -> Path:
    """Write all files that a server reads into its folder; `servers` are the members of an ensemble, with ports."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = {**SETTINGS, "dataDir": str(folder), "clientPort": str(port), "clientPortAddress": host}
    lines |= {f"server.{number}": address for number, address in (servers or {}).items()}
    lines |= (_LOGIN_SETTINGS if has_logins else {}) | dict(settings or {})
    if server_id is not None:
        (folder / "myid").write_text(f"{server_id}\n")
    (folder / "log4j2.properties").write_text(_LOGGING)
    path = folder / "zoo.cfg"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return path


def command(java_home: Path, jars: Sequence[Path], configuration: Path, jaas: Path | None = None) -> list[str]:
    """Return the command line of a server; `jaas` is the file with its users."""
    logins = [] if jaas is None else [f"-Djava.security.auth.login.config={jaas.absolute()}"]
    return [
        str(java_home / "bin" / "java"),
        # A server holds its tree in memory. One thread collects garbage and compiles, because several servers or
        # brokers may share the machine.
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={configuration.with_name('log4j2.properties')}",
        "-Dzookeeper.jmx.log4j.disable=true",
        *logins,
        "-cp",
        os.pathsep.join(map(str, jars)),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(configuration),
    ]
