"""The processes of Spark queries: their driver, and a cluster of its own with executors, or none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.port import free_port

from tailrace.spark.shipment import ARCHIVE_NAME

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}", "SPARK_LOCAL_IP": "127.0.0.1"}
LOCAL_MASTER = "local[*,4]"  # tasks are tried four times, as on a cluster
START_TIMEOUT_S = 180.0
# A driver lives for seconds, in which compiling plans and checking classes takes longer than running them.
_JAVA_OPTIONS = (
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
)
CONFIG = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
    "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
}
ON_A_CLUSTER = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    # The sinks with halts are modules of the tests, which Tailrace does not send to executors.
    "spark.executorEnv.PYTHONPATH": f"./{ARCHIVE_NAME}:{CHECKOUT}",
}
_EXECUTOR = "CoarseGrainedExecutorBackend"
_PYTHON_WORKER = " -m pyspark."


class LocalSpark:
    """Tasks that run in the driver's own Java."""

    master = LOCAL_MASTER
    sessions: tuple[int, ...] = ()

    def start(self) -> None:
        """Nothing is needed."""

    def end(self) -> None:
        """Nothing is left."""


class StandaloneSpark:
    """A master and two workers, which start an executor of one core each for whatever driver comes."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._port = free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._folder = folder
        self._environment = os.environ | ENVIRONMENT | environment
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def sessions(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    def start(self) -> None:
        """Start all, and return when the master listens; workers find it by themselves."""
        self._launch("master.Master", "--port", str(self._port))
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._is_listening():
            assert time.monotonic() < deadline_s, f"no master: {self._errors.read_text()[-2000:]}"
            time.sleep(0.1)
        for number in range(2):
            work = self._folder / f"spark-worker-{number}"
            limits = ("--cores", "1", "--memory", "1g")
            self._launch("worker.Worker", *limits, "--work-dir", str(work), self.master)

    def end(self) -> None:
        for session in self.sessions:
            kill_session(session)
        for process in self._processes:
            process.wait()

    @property
    def _errors(self) -> Path:
        return self._folder / "spark.txt"

    def _launch(self, name: str, *arguments: str) -> None:
        import pyspark

        from tailrace.spark.java import find_java_home
        from tailrace.spark.spark_session import write_log_config

        home = Path(pyspark.__file__).parent
        environment = {
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={write_log_config('warn').as_uri()}",
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with self._errors.open("a") as errors:
            process = subprocess.Popen(
                command,
                env=self._environment | environment,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        self._processes.append(process)

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


def config_for(master: str) -> dict[str, str]:
    """Return the configs of a driver's session."""
    return CONFIG if master.startswith("local") else CONFIG | ON_A_CLUSTER


class Driver:
    """The program of the queries (a module and its arguments), started again when it is killed."""

    def __init__(self, program: list[str], environment: dict[str, str], errors: Path) -> None:
        self._command = [sys.executable, "-m", *program]
        self._environment = os.environ | ENVIRONMENT | environment
        self.errors = errors
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: list[int] = []

    def start(self) -> None:
        with self.errors.open("a") as errors:
            self._process = subprocess.Popen(
                self._command,
                cwd=CHECKOUT,
                env=self._environment,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        self._sessions.append(self._process.pid)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def session(self) -> int:
        return self._sessions[-1]

    def kill(self, *, with_workers: bool) -> None:
        """Kill the program and Java; Python processes without them go when they notice, and may still be at work."""
        assert self._process is not None
        for pid, command in processes(self.session):
            if with_workers or _PYTHON_WORKER not in command:
                kill_process(pid)
        self._process.wait()

    def end(self) -> None:
        """Kill all that any of the programs has started."""
        for session in self._sessions:
            kill_session(session)
        if self._process is not None:
            self._process.wait()


def python_workers(*sessions: int) -> list[int]:
    """The processes that read, write, plan and commit."""
    return [pid for session in sessions for pid, command in processes(session) if _PYTHON_WORKER in command]


def executors(*sessions: int) -> list[int]:
    """The Java processes that run tasks."""
    return [pid for session in sessions for pid, command in processes(session) if _EXECUTOR in command]


def processes(session: int) -> Iterator[tuple[int, str]]:
    """The processes of a session, with their command lines."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has ended meanwhile
            if int(fields[3]) == session and fields[0] != "Z":
                yield int(folder.name), command


def kill_session(session: int) -> None:
    for pid, _ in processes(session):
        kill_process(pid)


def kill_chosen(pids: list[int], choice: float) -> bool:
    """Kill one of these, if there is any."""
    if pids:
        kill_process(sorted(pids)[int(choice * len(pids))])
    return bool(pids)


def kill_process(pid: int) -> None:
    """Kill a process, unless it has ended meanwhile."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
