"""`tailrace connect`: run the Connect service."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from tailrace.base.event_loop import new_event_loop
from tailrace.cli.http_option import check_http_options
from tailrace.cli.option import broker_options, choose_servers, read_command_config, read_pairs
from tailrace.cli.port import parse_listen
from tailrace.cli.server_log import configure_logging
from tailrace.config.error import ConfigError

if TYPE_CHECKING:
    from tailrace.connect.process import Listening
    from tailrace.connect.service import ServiceOptions

_LISTEN_DEFAULT = "127.0.0.1:8083"
_file = click.Path(exists=True, dir_okay=False, path_type=Path)


class _Given(TypedDict):
    """The options of the command, apart from those for HTTPS."""

    bootstrap_server: str | None
    command_config: Path | None
    listen: str | None
    advertise: str | None
    data: Path
    group_id: str | None
    config_topic: str | None
    status_topic: str | None
    offset_topic: str | None
    master: str
    spark_config: dict[str, str]
    worker_file: Path | None
    users: Path | None
    cluster_users: bool


@click.group()
def connect() -> None:
    """Run pipelines as a service, with Kafka Connect's REST API."""


@connect.command()
@broker_options
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Address to listen on; port 0 chooses a free port.  [default: {_LISTEN_DEFAULT}]",
)
@click.option("--advertise", metavar="HOST", help="Host that statuses name.  [default: that of --listen]")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    default=Path(".tailrace/connect"),
    show_default=True,
    help="Folder for pipeline files and checkpoints.",
)
@click.option("--group", "group_id", help="Services of one group replace each other.  [default: connect-cluster]")
@click.option("--config-topic", help="Topic for configs.  [default: connect-configs]")
@click.option("--status-topic", help="Topic for statuses.  [default: connect-status]")
@click.option("--offset-topic", help="Topic for offsets of sources.  [default: connect-offsets]")
@click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Spark master.")
@click.option(
    "--conf",
    "spark_config",
    multiple=True,
    metavar="NAME=VALUE",
    callback=read_pairs,
    help="Config of Spark, such as spark.driver.memory=1g; can be repeated.",
)
@click.option(
    "--config",
    "worker_file",
    type=_file,
    metavar="FILE",
    help="Properties of a Kafka Connect worker: brokers, group, topics, listeners, and converters of connectors that "
    "name none. Options of this command override them.",
)
@click.option(
    "--users", type=_file, metavar="FILE", help="Require basic authentication; each line of FILE is NAME:PASSWORD."
)
@click.option(
    "--cluster-users",
    is_flag=True,
    help="Require a login with a user of the Kafka cluster, whose ACLs decide what the caller may do.",
)
@click.option("--certificate", type=_file, metavar="FILE", help="PEM certificate; the service then serves HTTPS.")
@click.option("--key", type=_file, metavar="FILE", help="Key of the certificate.")
def start(certificate: Path | None, key: Path | None, **given: Unpack[_Given]) -> None:
    """Run a Connect service until SIGTERM or SIGINT.

    Prints "tailrace: connect ready on http://HOST:PORT" when it takes requests. Each connector is a pipeline in a Spark
    application of its own. Connectors and their states are in topics, so a service that was killed goes on where it
    was. A second service of the same group takes the connectors of the first one over. Needs the extra
    tailrace[connect].
    """
    check_http_options(certificate, key, given["users"], cluster_users=given["cluster_users"])
    try:
        from tailrace.connect.process import serve
        from tailrace.connect.store import Replaced, StoreError
        from tailrace.connect.worker_config import WorkerConfigError
        from tailrace.web.auth import UserFileError
    except ImportError as error:
        raise click.ClickException(
            f"the Connect service needs more packages ({error}); install the extra tailrace[connect]"
        ) from None
    try:
        options, listening = _read(given)
    except (UserFileError, WorkerConfigError) as error:
        raise click.ClickException(str(error)) from None
    configure_logging()
    listening = replace(listening, certificate=certificate, key=key)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve(options, listening, lambda url: click.echo(f"tailrace: connect ready on {url}")))
    except* (Replaced, StoreError, ConfigError) as errors:
        raise click.ClickException(str(errors.exceptions[0])) from None


def _read(given: _Given) -> "tuple[ServiceOptions, Listening]":
    """Return what the service is started with: options of the command, then those of the worker's file."""
    from tailrace.connect.process import Listening
    from tailrace.connect.service import ServiceOptions
    from tailrace.connect.store import TopicNames
    from tailrace.connect.worker_config import WorkerConfig, read_worker_config
    from tailrace.web.auth import read_users

    file, users = given["worker_file"], given["users"]
    worker = WorkerConfig() if file is None else read_worker_config(file)
    settings = {} if given["command_config"] is None else read_command_config(given["command_config"])
    servers = choose_servers(given["bootstrap_server"] or worker.bootstrap_servers or None, settings)
    topics = TopicNames(
        given["config_topic"] or worker.config_topic or "connect-configs",
        given["status_topic"] or worker.status_topic or "connect-status",
        given["offset_topic"] or worker.offset_topic or "connect-offsets",
    )
    options = ServiceOptions(
        {**worker.client, **settings, "bootstrap.servers": servers},
        given["data"].absolute(),
        given["group_id"] or worker.group_id or "connect-cluster",
        topics,
        given["master"],
        given["spark_config"],
        worker.converters,
    )
    host, port = parse_listen(given["listen"] or worker.listen or _LISTEN_DEFAULT)
    known = None if users is None else read_users(users)
    return options, Listening(host, port, given["advertise"] or host, known, given["cluster_users"])
