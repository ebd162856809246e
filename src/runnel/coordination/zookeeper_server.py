"""What a ZooKeeper server needs to run: its classes, its configuration and its command line.

The classes are those that PySpark brings along for Spark's own use; a server needs a
dozen of its jars. Naming them halves the time to start, compared to naming all.
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
    # Sessions may be as short as they are useful, and as long as Kafka's brokers ask for.
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxCnxns": "1000",
    "autopurge.snapRetainCount": "3",
    "autopurge.purgeInterval": "1",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,mntr,envi,conf",
}
"""What differs from ZooKeeper's own defaults: it notices failures sooner and opens no port that nobody asked for."""

_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %p zookeeper: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
# Says that there is no ensemble, which whoever starts one server knows.
logger.main.name = org.apache.zookeeper.server.quorum.QuorumPeerMain
logger.main.level = error
logger.config.name = org.apache.zookeeper.server.quorum.QuorumPeerConfig
logger.config.level = error
# Complains when it is asked how it is while it still starts.
logger.connection.name = org.apache.zookeeper.server.ServerCnxn
logger.connection.level = off
"""


class ZooKeeperMissingError(Exception):
    """The jars that a ZooKeeper server is made of are not there."""


def find_jars() -> list[Path]:
    """The jars of a ZooKeeper server among those of PySpark, which is not imported for it."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ZooKeeperMissingError(
            "a ZooKeeper server comes with PySpark, which is not installed: install the extra runnel[spark], or run a "
            "ZooKeeper of your own and name it in zookeeper.connect"
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars"
    jars = [jar for pattern in _JARS for jar in sorted(folder.glob(pattern))]
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise ZooKeeperMissingError(f"there is no ZooKeeper among the jars in {folder}")
    return jars


def write_configuration(
    folder: Path,
    host: str,
    port: int,
    *,
    server_id: int | None = None,
    servers: Mapping[int, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Write all that a server reads into its folder; `servers` are the members of an ensemble, with their ports."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = {**SETTINGS, "dataDir": str(folder), "clientPort": str(port), "clientPortAddress": host}
    lines |= {f"server.{number}": address for number, address in (servers or {}).items()}
    lines |= settings or {}
    if server_id is not None:
        (folder / "myid").write_text(f"{server_id}\n")
    (folder / "log4j2.properties").write_text(_LOGGING)
    path = folder / "zoo.cfg"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return path


def command(java_home: Path, jars: Sequence[Path], configuration: Path) -> list[str]:
    """The command line of a server."""
    return [
        str(java_home / "bin" / "java"),
        # A server holds its tree in memory; one thread collects garbage and compiles, as several servers or brokers
        # may share the machine.
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={configuration.with_name('log4j2.properties')}",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-cp",
        os.pathsep.join(map(str, jars)),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(configuration),
    ]
