"""A Spark session for pipelines over topics, on whatever machine this is."""

import os
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from runnel.spark.error import SessionError
from runnel.spark.java import find_java_home
from runnel.spark.worker_python import find_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"
LOG_LEVELS = ("off", "fatal", "error", "warn", "info", "debug", "trace")
SHUFFLE_PARTITIONS_LOCAL_MAX = 8

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
    """What `runnel.spark.session` does."""
    if log_level.lower() not in LOG_LEVELS:
        raise SessionError(f"log_level {log_level!r} is none of {', '.join(LOG_LEVELS)}")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SessionError("pyspark is not installed; install the extra: pip install 'runnel[spark]'") from None
    _check_arrow()
    settings = {name: _text(value) for name, value in config.items()}
    chosen = master or settings.get("spark.master") or LOCAL_MASTER
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(find_java_home())
        # Workers must be this Python, with what is installed here. Those that the driver starts for a data source take
        # the second name first.
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            os.environ.setdefault(name, _worker_python(chosen))
    builder = SparkSession.builder.appName(app_name).master(chosen)
    for name, value in (defaults(chosen, log_level.lower()) | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _worker_python(master: str) -> str:
    import pyspark

    return str(find_worker_python(Path(pyspark.__file__).parent)) if is_local(master) else sys.executable


def _check_arrow() -> None:
    for name in ("pandas", "pyarrow"):
        if find_spec(name) is None:
            raise SessionError(f"{name} is not installed; install the extra: pip install 'runnel[spark]'")


def defaults(master: str, log_level: str) -> dict[str, str]:
    """The settings of a session that are not Spark's own defaults, each with its reason."""
    found = {
        # Times of events mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # The source answers filters on offsets, times, partitions and topics by reading less.
        "spark.sql.python.filterPushdown.enabled": "true",
        # Stateful operators that keep more than fits the heap, and those that need this one.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.ui.showConsoleProgress": "false",
        # Driver and workers shake hands; the 15 seconds of Spark are too short for a machine that is very busy.
        "spark.python.authenticate.socketTimeout": "60s",
    }
    if is_local(master):
        found |= {
            # Each partition of a shuffle is a task, and here there are few cores.
            "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 1, SHUFFLE_PARTITIONS_LOCAL_MAX)),
            # Nobody else shall reach a session that one person runs on one machine.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={write_log_config(log_level).as_uri()}",
        }
    return found


def is_local(master: str) -> bool:
    """Whether everything runs in one process on this machine."""
    return master == "local" or master.startswith("local[")


def write_log_config(level: str) -> Path:
    """The file that keeps Spark quiet; the same one for every session of this process."""
    folder = Path(tempfile.gettempdir()) / f"runnel-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        folder = Path(tempfile.mkdtemp(prefix="runnel-"))
    path = folder / f"log4j2-{level}.properties"
    text = _LOG_CONFIG.format(level=level)
    if not path.exists() or path.read_text() != text:
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text)
        unfinished.replace(path)
    return path


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
