"""`tailrace acl`: add, list and delete access control lists."""

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.option_group import Decorator, option_group
from tailrace.cli.output import is_terminal, write_json, write_line, write_table
from tailrace.protocol.acl_code import Operation, PatternType, Permission, Resource

if TYPE_CHECKING:
    from tailrace.client.admin.acl import Acl, AclFilter
    from tailrace.client.cluster import Cluster

_CLUSTER_NAME = "kafka-cluster"
_KEYS = ("resourceType", "name", "patternType", "principal", "host", "operation", "permission")
_OPERATIONS = {
    name.replace("_", "").lower(): name.lower() for name in Operation.__members__ if name not in {"UNKNOWN", "ANY"}
}
_RESOURCES = {
    "topics": ("--topic", "topic", "Topic; `*` is every topic."),
    "groups": ("--group", "group", "Consumer group; `*` is every group."),
    "transactional_ids": ("--transactional-id", "transactional_id", "Transactional id; `*` is every id."),
    "tokens": ("--delegation-token", "delegation_token", "Id of a delegation token; `*` is every token."),
    "users": ("--user-principal", "user", "User for whom delegation tokens are created or described, as User:NAME."),
}
"""The options that name a resource, by their parameters: the option, the resource type, the help."""


def _read_operations(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """Parse operations; DescribeConfigs, describe-configs and describe_configs are the same. A callback for click."""
    plain = [value.replace("_", "").replace("-", "").lower() for value in values]
    if wrong := [value for value, key in zip(values, plain, strict=True) if key not in _OPERATIONS]:
        raise click.BadParameter(f"{wrong[0]!r} is not an operation; there are {', '.join(_OPERATIONS.values())}")
    return [_OPERATIONS[key] for key in plain]


class _Chosen(NamedTuple):
    """The principals, operations, resources and hosts that the options name."""

    principals: tuple[str, ...]
    operations: list[str]
    prefix: bool
    cluster: bool
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    tokens: tuple[str, ...]
    users: tuple[str, ...]
    hosts: tuple[str, ...]
    deny: bool

    @property
    def resources(self) -> list[tuple[str, str]]:
        """The types and names of the resources."""
        named = [(kind, name) for field, (_, kind, _) in _RESOURCES.items() for name in getattr(self, field)]
        return [*named, *([("cluster", _CLUSTER_NAME)] if self.cluster else [])]

    def filters(self, pattern_type: str | None) -> "list[AclFilter]":
        """Return a filter for each combination of the values; an option without values selects every value."""
        from tailrace.client.admin.acl import AclFilter

        named: list[tuple[str | None, str | None]] = [*self.resources] or [(None, None)]
        chosen = (self.principals, self.operations, self.hosts)
        by_whom, what, where = (list[str | None](values) or [None] for values in chosen)
        return [
            AclFilter(resource, name, principal, operation, pattern_type, host, "deny" if self.deny else None)
            for (resource, name), principal, operation, host in product(named, by_whom, what, where)
        ]


def _choice(principal: Decorator, operation_help: str, host: Decorator, deny_help: str) -> Decorator:
    """Return the options of a command; those that name resources are the same for all commands."""
    resources = (
        click.option(option, parameter, multiple=True, metavar="NAME", help=f"{text[:-1]}; can be repeated.")
        for parameter, (option, _, text) in _RESOURCES.items()
    )
    operation = click.option(
        "--operation",
        "operations",
        multiple=True,
        metavar="OPERATION",
        callback=_read_operations,
        help=f"{operation_help}: {', '.join(_OPERATIONS.values())}.",
    )
    prefix = click.option("--prefix", is_flag=True, help="The names are prefixes of names.")
    cluster = click.option("--cluster", is_flag=True, help="The cluster itself.")
    deny = click.option("--deny", is_flag=True, help=deny_help)
    return option_group("chosen", _Chosen, principal, operation, prefix, cluster, *resources, host, deny)


_new_acls = _choice(
    click.option(
        "--principal",
        "principals",
        multiple=True,
        required=True,
        metavar="User:NAME",
        help="Principal; can be repeated.",
    ),
    "Operation, can be repeated",
    click.option(
        "--host",
        "hosts",
        multiple=True,
        default=["*"],
        metavar="ADDRESS",
        help="Client address.  [default: every host]",
    ),
    "Deny the operation instead of allowing it.",
)
_selected_acls = _choice(
    click.option("--principal", "principals", multiple=True, metavar="User:NAME", help="Only ACLs of this principal."),
    "Only ACLs with this operation",
    click.option("--host", "hosts", multiple=True, metavar="ADDRESS", help="Only ACLs with this host."),
    "Only ACLs that deny.",
)


@click.group()
def acl() -> None:
    """Add, list and delete access control lists.

    An ACL allows or denies a principal an operation on a resource. Brokers with authorizer.class.name ask the ACLs.
    """


@acl.command()
@_new_acls
@json_option
@broker_options
def add(chosen: _Chosen, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Allow or deny principals operations on resources.

    Adds an ACL for each combination of the principals, operations, resources and hosts. ACLs that exist already remain.
    """
    from tailrace.client.admin.acl import Acl

    if not chosen.operations:
        raise click.UsageError("set at least one --operation, such as read; all is every operation")
    if not chosen.resources:
        raise click.UsageError("set at least one resource, such as --topic NAME, --group NAME or --cluster")
    pattern_type, permission = "prefixed" if chosen.prefix else "literal", "deny" if chosen.deny else "allow"
    combinations = product(chosen.resources, chosen.principals, chosen.operations, chosen.hosts)
    new = [
        Acl(resource, name, principal, operation, pattern_type, host, permission)
        for (resource, name), principal, operation, host in combinations
    ]
    for each in new:
        _check(each)
    run_with_cluster(bootstrap_server, command_config, lambda cluster: _create(cluster, new))
    _write(new, as_json, verb="added")


@acl.command("list")
@_selected_acls
@json_option
@broker_options
def list_acls(chosen: _Chosen, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """List ACLs: all of them, or those that the options select.

    A resource selects the ACLs that apply to it: those with its name, those with a prefix of its name, and those for
    every resource of the type. With --prefix it selects those with exactly this prefix.
    """
    filters = chosen.filters("prefixed" if chosen.prefix else "match")
    _write(run_with_cluster(bootstrap_server, command_config, lambda cluster: _describe(cluster, filters)), as_json)


@acl.command()
@_selected_acls
@click.option("--all", "is_all", is_flag=True, help="Delete all ACLs.")
@json_option
@broker_options
def delete(
    chosen: _Chosen, is_all: bool, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Delete the ACLs that all the options select, and print them.

    A resource selects the ACLs with exactly this name, and with --prefix those with exactly this prefix. An option that
    is left out selects every value.
    """
    if any(chosen) == is_all:
        raise click.UsageError("say which ACLs to delete, such as --principal User:NAME, or delete --all of them")
    pattern_type = "prefixed" if chosen.prefix else "literal" if chosen.resources else None
    filters = chosen.filters(pattern_type)
    deleted = run_with_cluster(bootstrap_server, command_config, lambda cluster: _delete(cluster, filters))
    if not deleted:
        raise click.ClickException("no ACL has these properties; `tailrace acl list` shows all")
    _write(deleted, as_json, verb="deleted")


def _check(acl: "Acl") -> None:
    """Raise `click.UsageError` if an ACL is not valid or can never have an effect."""
    from tailrace.machines.authorization.binding import AclBinding, ineffective_reason, invalid_reason

    binding = AclBinding(
        Resource[acl.resource_type.upper()],
        acl.name,
        PatternType[acl.pattern_type.upper()],
        acl.principal,
        acl.host,
        Operation[acl.operation.upper()],
        Permission[acl.permission.upper()],
    )
    if reason := invalid_reason(binding) or ineffective_reason(binding):
        raise click.UsageError(reason)


# --- requests


async def _create(cluster: "Cluster", acls: "list[Acl]") -> None:
    from tailrace.client.admin.core import Admin

    for error in (await Admin(cluster).create_acls(acls)).values():
        if error is not None:
            raise error


async def _describe(cluster: "Cluster", selections: "list[AclFilter]") -> "list[Acl]":
    from tailrace.client.admin.core import Admin

    admin = Admin(cluster)
    return sorted({found for selection in selections for found in await admin.describe_acls(selection)})


async def _delete(cluster: "Cluster", selections: "list[AclFilter]") -> "list[Acl]":
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    deleted: set[Acl] = set()
    for outcome in (await Admin(cluster).delete_acls(selections)).values():
        if isinstance(outcome, ApiError):
            raise outcome
        deleted.update(outcome)
    return sorted(deleted)


# --- output


def _write(acls: "list[Acl]", as_json: bool, verb: str = "") -> None:
    if as_json:
        write_json([dict(zip(_KEYS, _values(each), strict=True)) for each in acls])
    elif is_terminal() and not verb:
        write_table(("resource", "name", "pattern", "principal", "host", "operation", "permission"), map(_values, acls))
    else:
        for each in acls:
            write_line(f"{verb} {_line(each)}".lstrip())


def _values(acl: "Acl") -> tuple[str, ...]:
    pattern = acl.resource_type, acl.name, acl.pattern_type
    return (*pattern, acl.principal, acl.host, acl.operation, acl.permission)


def _line(acl: "Acl") -> str:
    resource, name, pattern_type, principal, host, operation, permission = _values(acl)
    kind = "" if pattern_type == "literal" else f"{pattern_type} "
    return f"{permission} {operation} on {resource} {kind}{name} to {principal} from {host}"
