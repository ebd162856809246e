"""`tailrace start`: run a broker in the foreground.

A broker should be ready within a fraction of a second, so modules are imported as late as possible, and only those
that the broker needs.
"""

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.base.event_loop import new_event_loop
from tailrace.cli.server_log import configure_logging
from tailrace.cli.version import pure_python_reason

if TYPE_CHECKING:
    from tailrace.config.broker import BrokerConfig

log = logging.getLogger("tailrace")


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Properties file, such as Kafka's server.properties.",
)
@click.option("--data", metavar="DIR", help="Folder for the logs; short for --set log.dirs=DIR.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen on; short for --set listeners=PLAINTEXT://HOST:PORT. Port 0 chooses a free port.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Broker config; can be repeated.")
def start(config_file: Path | None, data: str | None, listen: str | None, settings: tuple[str, ...]) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Prints "tailrace: broker ID ready on HOST:PORT" when it accepts connections. A config comes from --set, else from
    the environment (TAILRACE_LOG_RETENTION_MS for log.retention.ms), else from the file.
    """
    from tailrace.config.load import load_broker_config

    configure_logging()
    config = load_broker_config(config_file, os.environ, overrides(data, listen, settings))
    for notice in config.notices:
        log.warning("%s", notice)
    if (reason := pure_python_reason()) is not None:
        log.warning("the broker runs in pure Python and is slower than it could be: %s", reason)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(config))


def overrides(data: str | None, listen: str | None, settings: Sequence[str]) -> list[str]:
    """Return the configs of --set, --data and --listen; raises if one is set twice."""
    names = {setting.partition("=")[0].strip() for setting in settings}
    overrides = list(settings)
    if data is not None:
        if names & {"log.dirs", "log.dir"}:
            raise click.UsageError("--data and --set log.dirs cannot be combined: they set the same config")
        overrides.append(f"log.dirs={data}")
    if listen is not None:
        if "listeners" in names:
            raise click.UsageError("--listen and --set listeners cannot be combined: they set the same config")
        overrides.append(f"listeners=PLAINTEXT://{listen}")
    return overrides


async def _serve(config: "BrokerConfig") -> None:
    from tailrace.server.server import start_server

    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    try:
        server = await start_server(config)
    except OSError as error:
        # asyncio names the address in some of these errors, but not for an unknown host.
        if isinstance(error, socket.gaierror):
            reason = error.strerror
        elif error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            reason = os.strerror(error.errno)
        else:
            raise
        metrics = config.tailrace_metrics_listener
        opened = [*map(str, config.broker_listeners), *([] if metrics is None else [f"http://{metrics}"])]
        listeners = ", ".join(opened)
        options = "--listen or --set listeners" if metrics is None else "--set listeners or tailrace.metrics.listener"
        advice = f"; choose another port with {options}" if error.errno == errno.EADDRINUSE else ""
        raise click.ClickException(f"cannot listen on {listeners}: {reason}{advice}") from None
    addresses = [_address(endpoint.host, endpoint.port) for endpoint in server.endpoints]
    print(f"tailrace: broker {config.node_id} ready on {addresses[0]}", flush=True)
    log.info("broker %d is ready on %s, process %d", config.node_id, ", ".join(addresses), os.getpid())
    await stopping.wait()
    await server.stop()
    log.info("broker %d has stopped", config.node_id)


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """Stop the broker cleanly on the first signal; a second one ends a slow stop."""
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
