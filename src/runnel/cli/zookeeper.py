"""`runnel zookeeper`: a real ZooKeeper server, alone or as a member of an ensemble, for those who have none."""

import ctypes
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click

from runnel.cli.zookeeper_import import import_metadata

_LISTEN_DEFAULT = "127.0.0.1:2181"
_LOOK_EVERY_S = 0.05
_ASK_TIMEOUT_S = 2.0
_STOP_PATIENCE_S = 10
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SERVER = re.compile(r"(\d+)=([^,;=]+:\d+:\d+)")


@click.group()
def zookeeper() -> None:
    """Run a ZooKeeper server for a cluster of brokers."""


zookeeper.add_command(import_metadata)


@zookeeper.command()
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), default=Path("zookeeper"), show_default=True)
@click.option(
    "--listen", metavar="HOST:PORT", default=_LISTEN_DEFAULT, show_default=True, help="Port 0 takes a free one."
)
@click.option("--servers", metavar="ID=HOST:PORT:PORT,…", help="All members of an ensemble, with their two ports.")
@click.option("--id", "server_id", type=click.IntRange(1, 255), help="Which of --servers this is.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A line of zoo.cfg; repeat as needed.")
def start(data: Path, listen: str, servers: str | None, server_id: int | None, settings: tuple[str, ...]) -> None:
    """Run a server until SIGTERM or SIGINT.

    Prints "runnel: zookeeper ready on HOST:PORT" once it serves, which in an ensemble needs a majority of its
    members. The server is the one whose jars PySpark carries (the extra runnel[spark]).
    """
    from runnel.coordination.zookeeper_server import command, find_jars, write_configuration
    from runnel.spark.java import find_runtime

    members = parse_servers(servers) if servers else None
    if (members is None) != (server_id is None) or (members and server_id not in members):
        raise click.UsageError("an ensemble needs --servers and the --id of this one among them")
    lines = dict(_parse_setting(setting) for setting in settings)
    host, port = _parse_address(listen)
    jars = find_jars()
    java_home = find_runtime("ZooKeeper").home
    configuration = write_configuration(data, host, port, server_id=server_id, servers=members, settings=lines)
    sys.exit(_serve(command(java_home, jars, configuration), host, port))


def parse_servers(text: str) -> dict[int, str]:
    """The members of an ensemble by their ids."""
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


def _parse_address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {listen} is not of the form HOST:PORT")
    try:
        return host, _free_port(host, int(port))
    except OSError as error:
        raise click.ClickException(f"cannot listen on {listen}: {error.strerror}") from None


def _free_port(host: str, port: int) -> int:
    """The port, or any when it is 0; a server that is there already would be taken for the one that starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        free: int = probe.getsockname()[1]
        return free


def _serve(command: list[str], host: str, port: int) -> int:
    """Run the server, tell when it serves, and stop it on a signal; returns the exit status."""
    # Only the line that says "ready" goes to stdout.
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
            print(f"runnel: zookeeper ready on {address}", flush=True)
            break
        time.sleep(_LOOK_EVERY_S)
    status = process.wait()
    if not is_stopping:
        print(f"runnel: the ZooKeeper server ended by itself with status {status}", file=sys.stderr)
        return 1
    return 0


def _die_with_parent() -> None:
    """Not to be left behind when this process is killed; where the system has no such thing, it is."""
    # Ctrl-C reaches every process of a terminal; the parent passes on what the server should hear.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    except AttributeError:
        return


def is_serving(host: str, port: int) -> bool:
    """Whether the server at this address serves; its port is open a little earlier."""
    return "Mode: " in ask(host, port)


def ask(host: str, port: int) -> str:
    """What a server says of itself; nothing when it does not answer."""
    answer = b""
    try:
        with socket.create_connection((host, port), timeout=_ASK_TIMEOUT_S) as asking:
            asking.sendall(b"srvr")
            while chunk := asking.recv(4096):
                answer += chunk
    except OSError:
        return ""
    return answer.decode(errors="replace")
