"""`tailrace quota`: set, list and delete quotas of clients."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.option_group import option_group
from tailrace.cli.output import is_terminal, write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.admin.quota import QuotaEntity
    from tailrace.client.cluster import Cluster

Quotas = dict[str, float]

_KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


class _Named(NamedTuple):
    """The clients that the options name."""

    user: str | None
    client_id: str | None
    ip: str | None
    defaults: tuple[str, ...]

    def entity(self) -> "QuotaEntity":
        """Return the entity that the options name, or raise `click.UsageError`."""
        from tailrace.client.admin.quota import QuotaEntity, QuotaName

        names = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        defaults = self.defaults
        if twice := [kind for kind in defaults if names[kind] is not None or defaults.count(kind) > 1]:
            raise click.UsageError(f"name one {twice[0]} or its default, not both")
        parts = {kind: QuotaName.DEFAULT if kind in defaults else name for kind, name in names.items()}
        entity = QuotaEntity(parts["user"], parts["client-id"], parts["ip"])
        if not entity.parts:
            raise click.UsageError("name the clients with --user, --client-id, --ip or --default")
        if "ip" in entity.parts and len(entity.parts) > 1:
            raise click.UsageError("an address has quotas of its own; do not combine --ip with --user or --client-id")
        return entity


_named_option = option_group(
    "named",
    _Named,
    click.option("--user", metavar="NAME", help="Clients of this user."),
    click.option("--client-id", metavar="ID", help="Clients with this client id."),
    click.option("--ip", metavar="ADDRESS", help="Clients that connect from this address."),
    click.option(
        "--default",
        "defaults",
        multiple=True,
        type=click.Choice(["user", "client-id", "ip"]),
        help="Every user, client id or address without a quota of its own; can be combined with the others.",
    ),
)


def _read_quotas(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> Quotas:
    """Parse NAME=VALUE arguments. A callback for click."""
    quotas: Quotas = {}
    for item in values:
        name, separator, text = item.partition("=")
        if not separator:
            raise click.BadParameter(f"{item!r} is not NAME=VALUE")
        _check_key(name)
        if name in quotas:
            raise click.BadParameter(f"{name} is given twice")
        try:
            quotas[name] = float(text)
        except ValueError:
            raise click.BadParameter(f"{text!r} is not a number") from None
    return quotas


def _read_keys(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Check names of quotas. A callback for click."""
    for name in values:
        _check_key(name)
    return values


def _check_key(name: str) -> None:
    if name not in _KEYS:
        raise click.BadParameter(f"{name!r} is not a quota; there are {', '.join(_KEYS)}")


@click.group()
def quota() -> None:
    """Set, list and delete quotas of clients.

    A quota limits what clients may use of each broker per second: producer_byte_rate and consumer_byte_rate in bytes,
    request_percentage in percent of the broker's time, controller_mutation_rate in partitions that are created or
    deleted, and for an address connection_creation_rate. The most specific quota applies: a user's with a client id,
    then a user's, then a client id's; a name comes before a default.
    """


@quota.command("set")
@click.argument("quotas", nargs=-1, required=True, metavar="NAME=VALUE...", callback=_read_quotas)
@_named_option
@json_option
@broker_options
def set_quotas(
    quotas: Quotas, named: _Named, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Set quotas of a user, a client id, both, or an address; other quotas remain."""
    entity = named.entity()
    changes = {entity: dict[str, float | None](quotas)}
    run_with_cluster(bootstrap_server, command_config, lambda cluster: _alter(cluster, changes))
    _write({entity: quotas}, as_json, verb="set")


@quota.command("list")
@_named_option
@json_option
@broker_options
def list_quotas(named: _Named, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """List the quotas of all clients, or of those that the options name."""
    match = named.entity() if any(named) else None
    found = run_with_cluster(bootstrap_server, command_config, lambda cluster: _describe(cluster, match))
    _write(dict(sorted(found.items(), key=lambda item: _shown(item[0]))), as_json)


@quota.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", callback=_read_keys)
@_named_option
@json_option
@broker_options
def delete(
    names: tuple[str, ...], named: _Named, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Delete quotas of a user, a client id, both, or an address: those with the names, or all."""
    entity = named.entity()
    deleted = run_with_cluster(bootstrap_server, command_config, lambda cluster: _delete(cluster, entity, names))
    if not deleted:
        what = " and ".join(names) or "quota"
        raise click.ClickException(f"{_shown(entity)} has no {what}; `tailrace quota list` shows all")
    _write({entity: deleted}, as_json, verb="deleted")


# --- requests


async def _alter(cluster: "Cluster", changes: "dict[QuotaEntity, dict[str, float | None]]") -> None:
    from tailrace.client.admin.core import Admin

    for error in (await Admin(cluster).alter_client_quotas(changes)).values():
        if error is not None:
            raise error


async def _describe(
    cluster: "Cluster", match: "QuotaEntity | None", *, strict: bool = False
) -> "dict[QuotaEntity, Quotas]":
    from tailrace.client.admin.core import Admin

    return await Admin(cluster).describe_client_quotas(match, strict=strict)


async def _delete(cluster: "Cluster", entity: "QuotaEntity", names: tuple[str, ...]) -> Quotas:
    """Delete quotas and return those that there were."""
    found = (await _describe(cluster, entity, strict=True)).get(entity, {})
    deleted = {name: value for name, value in found.items() if not names or name in names}
    if deleted:
        await _alter(cluster, {entity: dict.fromkeys(deleted)})
    return deleted


# --- output


def _write(quotas: "dict[QuotaEntity, Quotas]", as_json: bool, verb: str = "") -> None:
    if as_json:
        write_json(
            [
                {
                    "entity": {kind: name if isinstance(name, str) else None for kind, name in entity.parts.items()},
                    "quotas": values,
                }
                for entity, values in quotas.items()
            ]
        )
    elif is_terminal() and not verb:
        rows = [(_shown(entity), _text(values)) for entity, values in quotas.items()]
        write_table(("clients", "quotas"), rows)
    else:
        for entity, values in quotas.items():
            write_line(f"{verb} {_shown(entity)}: {_text(values)}".lstrip())


def _shown(entity: "QuotaEntity") -> str:
    return " ".join(f"{kind} {name if isinstance(name, str) else name.value}" for kind, name in entity.parts.items())


def _text(values: Quotas) -> str:
    return " ".join(f"{name}={value:.15g}" for name, value in sorted(values.items()))
