"""`tailrace zookeeper`: run a ZooKeeper server, alone or as a member of an ensemble."""

import ctypes
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click

from tailrace.cli.port import parse_listen
from tailrace.cli.zookeeper_import import import_metadata

_LISTEN_DEFAULT = "127.0.0.1:2181"
_LOOK_EVERY_S = 0.05
_ASK_TIMEOUT_S = 2.0
_STOP_PATIENCE_S = 10
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SERVER_SECTION = re.compile(r"^\s*Server\s*\{", re.MULTILINE)
_SERVER = re.compile(r"(\d+)=([^,;=]+:\d+:\d+)")


@click.group()
def zookeeper() -> None:
    """Run a ZooKeeper server for a cluster of brokers."""


zookeeper.add_command(import_metadata)


@zookeeper.command()
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), default=Path("zookeeper"), show_default=True)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=_LISTEN_DEFAULT,
    show_default=True,
    help="Address to listen on; port 0 chooses a free port.",
)
@click.option("--servers", metavar="ID=HOST:PORT:PORT,…", help="All members of the ensemble, each with its two ports.")
@click.option("--id", "server_id", type=click.IntRange(1, 255), help="Id of this server in --servers.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Config of ZooKeeper, as in zoo.cfg; can be repeated.",
)
@click.option(
    "--jaas",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, readable=True),
    metavar="FILE",
    help="JAAS file with the users in its section Server. Clients have to log in with SASL then.",
)
def start(
    data: Path,
    listen: str,
    servers: str | None,
    server_id: int | None,
    settings: tuple[str, ...],
    jaas: Path | None,
) -> None:
    """Run a server until SIGTERM or SIGINT.

    Prints "tailrace: zookeeper ready on HOST:PORT" when it serves clients, which in an ensemble needs a majority of
    its members. The server's jars come with PySpark (the extra tailrace[spark]).
    """
    from tailrace.coordination.zookeeper.server import command, find_jars, write_configuration
    from tailrace.spark.java import find_runtime

    members = parse_servers(servers) if servers else None
    if (members is None) != (server_id is None) or (members and server_id not in members):
        raise click.UsageError("an ensemble needs --servers and the --id of this server among them")
    if jaas is not None and not _SERVER_SECTION.search(jaas.read_text(errors="replace")):
        # ZooKeeper would run without logins.
        raise click.UsageError(f"--jaas {jaas} has no section Server {{ … }};")
    lines = dict(_parse_setting(setting) for setting in settings)
    host, port = parse_listen(listen)
    jars = find_jars()
    java_home = find_runtime("ZooKeeper").home
    configuration = write_configuration(
        data, host, port, server_id=server_id, servers=members, settings=lines, has_logins=jaas is not None
    )
    sys.exit(_serve(command(java_home, jars, configuration, jaas), host, port))


def parse_servers(text: str) -> dict[int, str]:
    """Return the members of an ensemble by their ids."""
    found = [_SERVER.fullmatch(part.strip()) for part in text.split(",")]
    members = {int(match[1]): match[2] for match in found if match}
    if len(members) != len(found):
        raise click.UsageError(f"--servers {text} is not of the form 1=HOST:PORT:PORT,2=HOST:PORT:PORT,…")
    return members


def _parse_setting(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals or "\n" in setting:
        raise click.UsageError(f"--set {setting} is not of the form NAME=VALUE")
    return name.strip(), value.strip()


def _serve(command: list[str], host: str, port: int) -> int:
    """Run the server, report when it serves clients, and stop it on a signal; returns the exit status."""
    # Only the ready line goes to stdout.
    process = subprocess.Popen(command, stdout=sys.stderr, preexec_fn=_die_with_parent)  # noqa: PLW1509  no threads yet
    is_stopping = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal is_stopping
        is_stopping = True
        process.terminate()
        signal.alarm(_STOP_PATIENCE_S)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGALRM, lambda _number, _frame: process.kill())
    while process.poll() is None and not is_stopping:
        if is_serving(host, port):
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            print(f"tailrace: zookeeper ready on {address}", flush=True)
            break
        time.sleep(_LOOK_EVERY_S)
    status = process.wait()
    if not is_stopping:
        print(f"tailrace: the ZooKeeper server ended by itself with status {status}", file=sys.stderr)
        return 1
    return 0


def _die_with_parent() -> None:
    """Have the kernel kill the server when this process is killed, on systems that can do that."""
    # Ctrl-C reaches every process of a terminal; only the parent should stop the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    except AttributeError:
        return


def is_serving(host: str, port: int) -> bool:
    """Return whether the server at this address serves clients; it opens its port earlier."""
    return "Mode: " in ask(host, port)


def ask(host: str, port: int) -> str:
    """Return a server's answer to `srvr`; empty if it does not answer."""
    answer = b""
    try:
        with socket.create_connection((host, port), timeout=_ASK_TIMEOUT_S) as asking:
            asking.sendall(b"srvr")
            while chunk := asking.recv(4096):
                answer += chunk
    except OSError:
        return ""
    return answer.decode(errors="replace")
