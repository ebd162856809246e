"""`tailrace config`: list, set and delete the dynamic configs of topics, brokers and groups."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tailrace.cli.config_output import Listing, Resource, write_changed, write_listings
from tailrace.cli.option import broker_options, json_option, run_with_cluster

if TYPE_CHECKING:
    from tailrace.client.admin.core import Admin
    from tailrace.client.cluster import Cluster
    from tailrace.protocol.errors import ApiError

_KINDS = ("topic", "broker", "group")

_kind_argument = click.argument("kind", type=click.Choice(_KINDS), metavar="topic|broker|group")
_default_option = click.option(
    "--default", "is_default", is_flag=True, help="The default of all brokers, in place of the NAME of one."
)


class _Chosen(NamedTuple):
    """The resource that a call names, or None for all of its type, and the remaining arguments."""

    kind: str
    resource: Resource | None
    words: tuple[str, ...]

    def require(self) -> Resource:
        """Return the resource, or raise `click.UsageError` if the call does not name one."""
        if self.resource is None:
            or_default = ", or set --default for all brokers" if self.kind == "broker" else ""
            raise click.UsageError(f"name the {self.kind}{or_default}")
        return self.resource


@click.group()
def config() -> None:
    """List, set and delete configs of topics, brokers and groups.

    The commands change dynamic configs, which take effect at once and survive a restart. NAME is a topic, the id of a
    broker, or a group; --default is for the configs of all brokers. The configs that a broker was started with can be
    listed, but not changed. Quotas and users have commands of their own, `tailrace quota` and `tailrace user`.

    \b
    tailrace config set topic page_views retention.ms=86400000 cleanup.policy=compact,delete
    tailrace config list topic page_views
    tailrace config delete topic page_views retention.ms
    """


@config.command("list")
@_kind_argument
@click.argument("words", nargs=-1, metavar="[NAME [CONFIG]...]")
@_default_option
@click.option("--all", "is_all", is_flag=True, help="List all configs, not only those that are set for the resource.")
@json_option
@broker_options
def list_configs(
    kind: str,
    words: tuple[str, ...],
    is_default: bool,
    is_all: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """List the configs of a topic, a broker, a group, or all.

    The list has the configs that are set for NAME itself, or for every topic, broker or group. With --all, or for each
    CONFIG that is named, it also has values from other sources, such as the default of the cluster. The synonyms are
    the values that would apply instead, the strongest first. Passwords are not shown.

    \b
    tailrace config list topic page_views retention.ms
    tailrace config list broker --default
    """
    chosen = _choose(kind, words, is_default)
    if is_all and chosen.words:
        raise click.UsageError(f"--all lists all configs: leave out {chosen.words[0]}, or --all")
    found = run_with_cluster(bootstrap_server, command_config, lambda cluster: _list(cluster, chosen, is_all))
    write_listings(kind, found, as_json)


@config.command("set")
@_kind_argument
@click.argument("words", nargs=-1, metavar="NAME CONFIG=VALUE...")
@_default_option
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Properties file with configs to set, such as passwords, which do not belong on a command line.",
)
@json_option
@broker_options
def set_configs(
    kind: str,
    words: tuple[str, ...],
    is_default: bool,
    file: Path | None,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Set configs of a topic, a broker or a group.

    The other configs of NAME remain. If the broker refuses one of the configs, none is set.

    \b
    tailrace config set broker 1 log.cleaner.threads=2
    tailrace config set broker --default log.retention.ms=604800000
    tailrace config set group billing consumer.session.timeout.ms=50000
    """
    chosen = _choose(kind, words, is_default)
    resource = chosen.require()
    changes = _read_changes(chosen.words, file)
    run_with_cluster(bootstrap_server, command_config, lambda cluster: _alter(cluster, resource, changes))
    write_changed("set", resource, list(changes), as_json)


@config.command()
@_kind_argument
@click.argument("words", nargs=-1, metavar="NAME CONFIG...")
@_default_option
@json_option
@broker_options
def delete(
    kind: str,
    words: tuple[str, ...],
    is_default: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Delete configs of a topic, a broker or a group.

    The values of the next source apply, such as the default of the cluster; `tailrace config list` shows them as
    synonyms.

    \b
    tailrace config delete topic page_views retention.ms
    """
    chosen = _choose(kind, words, is_default)
    resource, names = chosen.require(), list(dict.fromkeys(chosen.words))
    if not names:
        raise click.UsageError("name the configs to delete, such as retention.ms")
    run_with_cluster(bootstrap_server, command_config, lambda cluster: _delete(cluster, resource, names))
    write_changed("deleted", resource, names, as_json)


# --- arguments


def _choose(kind: str, words: tuple[str, ...], is_default: bool) -> _Chosen:
    """Split the arguments of a call into the resource and the rest."""
    if is_default:
        if kind != "broker":
            raise click.UsageError(f"--default is for brokers: a {kind} has no default of its own")
        return _Chosen(kind, Resource(kind, ""), words)
    if not words:
        return _Chosen(kind, None, ())
    name, *rest = words
    if kind == "broker" and not (name.isascii() and name.isdigit()):
        raise click.UsageError(f"{name!r} is not the id of a broker; name a broker, or set --default for all brokers")
    if not name:
        raise click.UsageError(f"the name of the {kind} is empty")
    return _Chosen(kind, Resource(kind, name), tuple(rest))


def _read_changes(words: Sequence[str], file: Path | None) -> dict[str, str]:
    from tailrace.config.properties import PropertiesError, read_properties

    changes: dict[str, str] = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{text!r} is not CONFIG=VALUE")
        _add(changes, name.strip(), value)
    if file is not None:
        try:
            for entry in read_properties(file):
                _add(changes, entry.name, entry.value)
        except PropertiesError as error:
            raise click.ClickException(f"{file}: {error}") from None
    if not changes:
        raise click.UsageError("set at least one config, such as retention.ms=86400000")
    return changes


def _add(changes: dict[str, str], name: str, value: str) -> None:
    if name in changes:
        raise click.UsageError(f"{name} is given twice")
    changes[name] = value


# --- requests


async def _list(cluster: "Cluster", chosen: _Chosen, is_all: bool) -> list[Listing]:
    from tailrace.client.admin.core import Admin

    admin = Admin(cluster)
    resources = await _find(admin, chosen.kind) if chosen.resource is None else [chosen.resource]
    found = [await _describe(cluster, resource) for resource in resources]
    if chosen.resource is None:
        return [listing if is_all else listing.own() for listing in found if is_all or listing.own().configs]
    listing = found[0]
    for name in chosen.words:
        if name not in listing.names:
            raise click.ClickException(f"{chosen.resource} has no config {name}{_suggest(name, listing.names)}")
    return [listing.select(chosen.words) if chosen.words else listing if is_all else listing.own()]


async def _find(admin: "Admin", kind: str) -> list[Resource]:
    """Return all resources of a type that may have configs of their own."""
    from tailrace.client.admin.core import ResourceType

    if kind == "topic":
        return [Resource(kind, topic.name) for topic in await admin.list_topics(include_internal=True)]
    if kind == "group":
        return [Resource(kind, name) for name in await admin.list_config_resources(ResourceType.GROUP)]
    brokers = sorted((await admin.describe_cluster()).nodes)
    return [*(Resource(kind, str(broker)) for broker in brokers), Resource(kind, "")]


async def _describe(cluster: "Cluster", resource: Resource) -> Listing:
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    _check_broker(cluster, resource)
    try:
        configs = await Admin(cluster).describe_configs(resource.type, resource.name, include_synonyms=True)
    except ApiError as error:
        raise await _explain(cluster, resource, error) from None
    return Listing(resource, tuple(configs))


async def _alter(cluster: "Cluster", resource: Resource, changes: Mapping[str, str | None]) -> None:
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    _check_broker(cluster, resource)
    try:
        await Admin(cluster).alter_configs(resource.type, resource.name, changes)
    except ApiError as error:
        raise await _explain(cluster, resource, error) from None


async def _delete(cluster: "Cluster", resource: Resource, names: Sequence[str]) -> None:
    """Delete configs; brokers would ignore a name that is not set, and so a misspelt one."""
    own = (await _describe(cluster, resource)).own().names
    for name in names:
        if name not in own:
            raise click.ClickException(f"{resource} does not set {name}{_suggest(name, own)}")
    await _alter(cluster, resource, dict.fromkeys(names))


def _check_broker(cluster: "Cluster", resource: Resource) -> None:
    brokers = cluster.view.nodes
    if resource.kind == "broker" and resource.name and int(resource.name) not in brokers:
        raise click.ClickException(f"there is no broker {resource.name}: the cluster has {_list_ids(brokers)}")


def _list_ids(brokers: Mapping[int, object]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, sorted(brokers)))}"


async def _explain(cluster: "Cluster", resource: Resource, error: "ApiError") -> "ApiError":
    """Return the broker's error with the resource, and for a topic that does not exist with one of a similar name."""
    from tailrace.protocol.errors import ApiError, ErrorCode

    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        topics = (await cluster.refresh(None)).topics
        return ApiError(error.code, f"{resource} does not exist{_suggest(resource.name, topics)}")
    return ApiError(error.code, f"{resource}: {error.message}" if error.message else str(resource))


def _suggest(name: str, known: Iterable[str]) -> str:
    from tailrace.config.configuration import suggestion

    return suggestion(name, known)
