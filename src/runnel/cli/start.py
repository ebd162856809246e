"""`runnel start`: a broker in the foreground, from its options to a clean stop.

Ready in a fraction of a second is a promise, so everything is imported as late as it can be
and nothing that the broker does not need.
"""

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.base.event_loop import new_event_loop

if TYPE_CHECKING:
    from runnel.config.broker import BrokerConfig

log = logging.getLogger("runnel")


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A properties file, such as Kafka's server.properties.",
)
@click.option("--data", metavar="DIR", help="The folder for the logs, short for --set log.dirs=DIR.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Where to listen, short for --set listeners=PLAINTEXT://HOST:PORT; port 0 takes a free one.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A broker option; repeat as needed.")
def start(config_file: Path | None, data: str | None, listen: str | None, settings: tuple[str, ...]) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Prints "runnel: broker ID ready on HOST:PORT" once it accepts connections. Options come from
    --set, then from the environment (RUNNEL_LOG_RETENTION_MS for log.retention.ms), then from the file.
    """
    from runnel.config.load import load_broker_config

    _configure_logging()
    config = load_broker_config(config_file, os.environ, overrides(data, listen, settings))
    for notice in config.notices:
        log.warning("%s", notice)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(config))


def overrides(data: str | None, listen: str | None, settings: Sequence[str]) -> list[str]:
    """The settings with --data and --listen among them; naming an option twice is a wrong call."""
    names = {setting.partition("=")[0].strip() for setting in settings}
    overrides = list(settings)
    if data is not None:
        if names & {"log.dirs", "log.dir"}:
            raise click.UsageError("--data and --set log.dirs say the same thing: give one of them")
        overrides.append(f"log.dirs={data}")
    if listen is not None:
        if "listeners" in names:
            raise click.UsageError("--listen and --set listeners say the same thing: give one of them")
        overrides.append(f"listeners=PLAINTEXT://{listen}")
    return overrides


def _configure_logging() -> None:
    """One line an event on stderr, with the time, the level and the message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])  # for what asyncio and other libraries say
    # The broker's lines are the same whatever a library that was imported before has done to the root's handlers.
    log.setLevel(logging.INFO)
    log.handlers = [handler]
    log.propagate = False


async def _serve(config: "BrokerConfig") -> None:
    from runnel.server.server import Server

    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    server = Server(config)
    try:
        await server.start()
    except OSError as error:
        # asyncio puts the address into the words for some of these, but not for a name that nobody knows.
        if isinstance(error, socket.gaierror):
            reason = error.strerror
        elif error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            reason = os.strerror(error.errno)
        else:
            raise
        metrics = config.runnel_metrics_listener
        opened = [*map(str, config.broker_listeners), *([] if metrics is None else [f"http://{metrics}"])]
        listeners = ", ".join(opened)
        raise click.ClickException(f"cannot listen on {listeners}: {reason}") from None
    addresses = [_address(endpoint.host, endpoint.port) for endpoint in server.endpoints]
    print(f"runnel: broker {config.node_id} ready on {addresses[0]}", flush=True)
    log.info("broker %d is ready on %s, process %d", config.node_id, ", ".join(addresses), os.getpid())
    await stopping.wait()
    await server.stop()
    log.info("broker %d has stopped", config.node_id)


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """The first signal stops the broker cleanly; a second one ends a stop that takes too long."""
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        log.info("stopping on %s", number.name)
        stopping.set()
        for handled in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(handled)

    for handled in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(handled, stop, handled)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
