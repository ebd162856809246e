"""`tailrace registry`: run the schema registry."""

import asyncio
from pathlib import Path

import click

from tailrace.base.event_loop import new_event_loop
from tailrace.cli.http_option import check_http_options
from tailrace.cli.option import broker_options, choose_servers, read_command_config
from tailrace.cli.port import parse_listen
from tailrace.cli.server_log import configure_logging
from tailrace.config.error import ConfigError
from tailrace.security.tls.error import TlsConfigError

_LISTEN_DEFAULT = "127.0.0.1:8081"


@click.group()
def registry() -> None:
    """Run a schema registry."""


@registry.command()
@broker_options
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=_LISTEN_DEFAULT,
    show_default=True,
    help="Address to listen on; port 0 chooses a free port.",
)
@click.option(
    "--advertise", metavar="HOST", help="Host at which other registries reach this one.  [default: that of --listen]"
)
@click.option("--topic", default="_schemas", show_default=True, help="Topic that holds the schemas.")
@click.option(
    "--group", default="schema-registry", show_default=True, help="Group of the registries that share the topic."
)
@click.option("--follower", is_flag=True, help="Never become the leader; forward every change.")
@click.option(
    "--session-timeout",
    type=click.IntRange(min=100),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="Time without heartbeats after which the other registries elect a new leader.",
)
@click.option(
    "--users",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Require basic authentication; each line of FILE is NAME:PASSWORD.",
)
@click.option(
    "--cluster-users",
    is_flag=True,
    help="Require a login with a user of the Kafka cluster, whose ACLs decide what the caller may do.",
)
@click.option(
    "--certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PEM certificate; the registry then serves HTTPS.",
)
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Key of the certificate.",
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PEM certificates to trust when a request is forwarded to a leader with HTTPS.  [default: the system's]",
)
def start(
    bootstrap_server: str | None,
    command_config: Path | None,
    listen: str,
    advertise: str | None,
    topic: str,
    group: str,
    follower: bool,
    session_timeout: int,
    users: Path | None,
    cluster_users: bool,
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
) -> None:
    """Run a registry until SIGTERM or SIGINT.

    Prints "tailrace: registry ready on http://HOST:PORT" when it takes requests. Several registries with the same
    --topic and --group share their schemas: the leader writes, and all of them serve requests. Needs the extra
    tailrace[registry].
    """
    host, port = parse_listen(listen)
    if (advertise or host) in ("0.0.0.0", "::"):  # noqa: S104 - it is refused
        raise click.UsageError(f"other registries cannot reach {advertise or host}: name a host with --advertise")
    check_http_options(certificate, key, users, cluster_users=cluster_users)
    bootstrap, client = _read_client(bootstrap_server, command_config)
    try:
        from tailrace.registry.process import Options, serve
        from tailrace.registry.store import StoreError
        from tailrace.web.auth import UserFileError, read_users
    except ImportError as error:
        raise click.ClickException(
            f"the registry needs more packages ({error}); install the extra tailrace[registry]"
        ) from None
    try:
        known = None if users is None else read_users(users)
    except UserFileError as error:
        raise click.ClickException(str(error)) from None
    configure_logging()
    options = Options(
        bootstrap=bootstrap,
        host=host,
        port=port,
        advertised_host=advertise or host,
        topic=topic,
        group_id=group,
        can_lead=not follower,
        session_timeout_ms=session_timeout,
        client=client,
        users=known,
        has_cluster_users=cluster_users,
        certificate=certificate,
        key=key,
        ca=ca,
    )
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve(options, lambda url: click.echo(f"tailrace: registry ready on {url}")))
    except (StoreError, TlsConfigError, ConfigError) as error:
        raise click.ClickException(str(error)) from None


def _read_client(bootstrap_server: str | None, command_config: Path | None) -> tuple[str, dict[str, str]]:
    """Return the brokers, and the other configs of clients in the file."""
    client = {} if command_config is None else dict(read_command_config(command_config, prefix="kafkastore."))
    bootstrap = choose_servers(bootstrap_server, client)
    client.pop("bootstrap.servers", None)
    return bootstrap, client
