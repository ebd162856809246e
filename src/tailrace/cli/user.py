"""`tailrace user`: add, list and delete users that log in with SCRAM."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tailrace.base.event_loop import new_event_loop
from tailrace.base.security_limits import USER_NAME_LENGTH_MAX
from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.option_group import option_group
from tailrace.cli.output import write_json, write_line, write_table
from tailrace.security.scram.mechanism import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS

if TYPE_CHECKING:
    from tailrace.client.admin.scram import NewScramCredential, ScramCredential
    from tailrace.client.cluster import Cluster
    from tailrace.config.broker import BrokerConfig

T = TypeVar("T")

_MECHANISM_OPTION = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(list(SCRAM_MECHANISMS), case_sensitive=False),
    multiple=True,
    default=list(SCRAM_MECHANISMS),
    help="SCRAM mechanism; can be repeated.  [default: both]",
)


class _Store(NamedTuple):
    """The metadata store that the options name in place of a broker."""

    data: str | None
    zookeeper: str | None
    config_file: Path | None

    def config(self, bootstrap_server: str | None) -> "BrokerConfig | None":
        """Return the config of the broker whose metadata store is used; None if the command reaches a broker."""
        options = zip(("--data", "--zookeeper", "--config"), self, strict=True)
        given = [name for name, value in options if value]
        if not given:
            return None
        source = click.get_current_context().get_parameter_source("bootstrap_server")
        if bootstrap_server is not None and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{given[0]} and --bootstrap-server cannot be combined")
        if self.data is not None and self.zookeeper is not None:
            raise click.UsageError("--data and --zookeeper cannot be combined: a broker has one metadata store")
        from tailrace.cli.start import overrides
        from tailrace.config.load import load_broker_config

        settings = () if self.zookeeper is None else (f"zookeeper.connect={self.zookeeper}",)
        return load_broker_config(self.config_file, os.environ, overrides(self.data, None, settings))


_store_option = option_group(
    "store",
    _Store,
    click.option("--data", metavar="DIR", help="Folder of a single broker that does not run."),
    click.option("--zookeeper", metavar="HOST:PORT", help="ZooKeeper of a cluster, with its path if any."),
    click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Properties file of a broker that does not run.",
    ),
)


@click.group()
def user() -> None:
    """Add, list and delete users that log in with SCRAM.

    The commands reach a broker, or write into the metadata store while no broker runs: with --data for a single
    broker, with --zookeeper for a cluster, or with --config and the properties file of a broker. So the first user can
    be added before a broker that lets no client in without a password is started. Give --config in any case if
    brokers need a password or TLS for ZooKeeper.
    """


@user.command()
@click.argument("name")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File with the password on one line.  [default: stdin]",
)
@_MECHANISM_OPTION
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="How often the password is hashed.",
)
@_store_option
@json_option
@broker_options
def add(
    name: str,
    password_file: Path | None,
    mechanisms: tuple[str, ...],
    iterations: int,
    store: _Store,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Add user NAME, or give it another password."""
    from tailrace.cli.password import read_password
    from tailrace.client.admin.scram import NewScramCredential

    if not name or len(name) > USER_NAME_LENGTH_MAX:
        raise click.UsageError(f"NAME must have 1 to {USER_NAME_LENGTH_MAX} characters")
    config = store.config(bootstrap_server)
    password = read_password(password_file)
    new = [NewScramCredential(name, password, mechanism, iterations) for mechanism in mechanisms]
    if config is None:
        run_with_cluster(bootstrap_server, command_config, lambda cluster: _set(cluster, new))
    else:
        _run(_set_stored(config, new))
    if as_json:
        write_json({"name": name, "mechanisms": list(mechanisms), "iterations": iterations})
    else:
        write_line(f"user {name} can log in with {' and '.join(mechanisms)}")


@user.command("list")
@_store_option
@json_option
@broker_options
def list_users(store: _Store, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """List the users and their mechanisms."""
    config = store.config(bootstrap_server)
    if config is None:
        found = run_with_cluster(bootstrap_server, command_config, _describe)
    else:
        from tailrace.cli import stored_user

        found = _run(stored_user.list_users(config))
    if as_json:
        write_json(
            [
                {
                    "name": name,
                    "credentials": [{"mechanism": one.mechanism, "iterations": one.iterations} for one in credentials],
                }
                for name, credentials in found.items()
            ]
        )
        return
    rows = [(name, one.mechanism, one.iterations) for name, credentials in found.items() for one in credentials]
    write_table(("user", "mechanism", "iterations"), rows)


@user.command()
@click.argument("name")
@_MECHANISM_OPTION
@_store_option
@json_option
@broker_options
def delete(
    name: str,
    mechanisms: tuple[str, ...],
    store: _Store,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Delete user NAME: it cannot log in any more. Its ACLs and quotas remain."""
    config = store.config(bootstrap_server)
    wanted = frozenset(mechanisms)
    if config is None:
        deleted = run_with_cluster(bootstrap_server, command_config, lambda cluster: _delete(cluster, name, wanted))
    else:
        from tailrace.cli import stored_user

        deleted = _run(stored_user.delete_credentials(config, name, wanted))
    if not deleted:
        raise click.ClickException(f"user {name} has no credential for {' or '.join(sorted(wanted))}")
    if as_json:
        write_json({"name": name, "deleted": deleted})
    else:
        write_line(f"user {name} cannot log in with {' and '.join(deleted)} any more")


# --- requests


async def _set(cluster: "Cluster", credentials: "list[NewScramCredential]") -> None:
    from tailrace.client.admin.core import Admin

    for credential in credentials:  # one request may name a user once
        outcome = await Admin(cluster).alter_user_scram_credentials([credential])
        if error := outcome[credential.user]:
            raise error


async def _describe(cluster: "Cluster") -> "dict[str, list[ScramCredential]]":
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    found = await Admin(cluster).describe_user_scram_credentials()
    return {name: [] if isinstance(outcome, ApiError) else outcome for name, outcome in found.items()}


async def _delete(cluster: "Cluster", name: str, mechanisms: frozenset[str]) -> list[str]:
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError, ErrorCode

    admin = Admin(cluster)
    found = (await admin.describe_user_scram_credentials([name]))[name]
    if isinstance(found, ApiError):
        if found.code is ErrorCode.RESOURCE_NOT_FOUND:
            return []
        raise found
    deleted = sorted(mechanisms & {one.mechanism for one in found})
    for mechanism in deleted:
        if error := (await admin.alter_user_scram_credentials(deletions=[(name, mechanism)]))[name]:
            raise error
    return deleted


# --- without a broker


async def _set_stored(config: "BrokerConfig", credentials: "list[NewScramCredential]") -> None:
    from tailrace.cli import stored_user

    for credential in credentials:
        await stored_user.set_credential(config, credential)


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
