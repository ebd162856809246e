"""The Spark session for pipelines over topics."""

import os
import pwd
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.spark.error import SessionError
from tailrace.spark.java import find_java_home
from tailrace.spark.shipment import shipment_config
from tailrace.spark.worker_python import find_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"
LOG_LEVELS = ("off", "fatal", "error", "warn", "info", "debug", "trace")
SHUFFLE_PARTITIONS_LOCAL_MAX = 8
REDACTED = "(?i)secret|password|token|access[.]?key|sasl[.]jaas|keystore[.]key|private key"
"""What Spark hides in plans and web pages: names and values that match it."""

_LOG_CONFIG = """\
status = off
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
# Named so that it has the same level as the root: otherwise Spark changes that, and says so.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
"""


def build_session(
    app_name: str, *, master: str | None, config: Mapping[str, str | int | float | bool], log_level: str
) -> "SparkSession":
    """Create a session; see `tailrace.spark.session`."""
    if log_level.lower() not in LOG_LEVELS:
        raise SessionError(f"log_level {log_level!r} is not one of {', '.join(LOG_LEVELS)}")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SessionError("pyspark is not installed; install the extra: pip install 'tailrace[spark]'") from None
    _check_arrow()
    _check_user()
    settings = {name: _text(value) for name, value in config.items()}
    chosen = master or settings.get("spark.master") or LOCAL_MASTER
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(find_java_home())
        # Workers must use this Python with its packages. Workers that the driver starts for a data source read
        # the second name first.
        here = _driver_python()
        os.environ.setdefault("PYSPARK_PYTHON", here if is_local(chosen) else sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", here)
    builder = SparkSession.builder.appName(app_name).master(chosen)
    for name, value in (defaults(chosen, log_level.lower()) | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _driver_python() -> str:
    import pyspark

    return str(find_worker_python(Path(pyspark.__file__).parent))


def _check_arrow() -> None:
    for name in ("pandas", "pyarrow"):
        if find_spec(name) is None:
            raise SessionError(f"{name} is not installed; install the extra: pip install 'tailrace[spark]'")


def _check_user() -> None:
    """Raise `SessionError` if the user has no name, as in a container that runs with any user id."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise SessionError(
            f"Spark needs the name of its user, and user id {os.getuid()} has none on this machine: add a line for it "
            "to /etc/passwd"
        ) from None


def defaults(master: str, log_level: str) -> dict[str, str]:
    """Return the configs of a session that differ from Spark's defaults, each with its reason."""
    found = {
        # Timestamps are the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # The source reads less for filters on offsets, times, partitions and topics.
        "spark.sql.python.filterPushdown.enabled": "true",
        # For state that is larger than the heap, and for operators that need RocksDB.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.ui.showConsoleProgress": "false",
        # Spark hides passwords, secrets and tokens. Kafka's options have logins and keys under other names, too.
        "spark.redaction.regex": REDACTED,
        # Spark's handshake timeout of 15 seconds is too short for a busy machine.
        "spark.python.authenticate.socketTimeout": "60s",
    }
    if is_local(master):
        found |= {
            # Each shuffle partition is a task, and one machine has few cores.
            "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 1, SHUFFLE_PARTITIONS_LOCAL_MAX)),
            # A local session must not be reachable from other machines.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={write_log_config(log_level).as_uri()}",
        }
    else:
        found |= shipment_config(_own_folder())
    return found


def is_local(master: str) -> bool:
    """Return whether the master is local."""
    return master == "local" or master.startswith("local[")


def write_log_config(level: str) -> Path:
    """Return the file with Spark's log configuration, which all sessions of this process share."""
    path = _own_folder() / f"log4j2-{level}.properties"
    text = _LOG_CONFIG.format(level=level)
    if not path.exists() or path.read_text() != text:
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text)
        unfinished.replace(path)
    return path


def _own_folder() -> Path:
    """Return the folder for temporary files of this user, which all processes share; a new one if it is another's."""
    folder = Path(tempfile.gettempdir()) / f"tailrace-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder if folder.stat().st_uid == os.getuid() else Path(tempfile.mkdtemp(prefix="tailrace-"))


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
