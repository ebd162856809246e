"""`tailrace token`: create, renew, expire and describe delegation tokens."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.admin.token import DelegationToken
    from tailrace.client.cluster import Cluster

_DEFAULT_MS = -1


def _read_principals(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Check principals. A callback for click."""
    if wrong := [value for value in values if not all(value.partition(":"))]:
        raise click.BadParameter(f"{wrong[0]!r} is not a principal such as User:alice")
    return values


def _read_principal(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check a principal. A callback for click."""
    return None if value is None else _read_principals(context, parameter, (value,))[0]


@click.group()
def token() -> None:
    """Create, renew, expire and describe delegation tokens.

    A job logs in with a token as the user that owns it, without that user's password, until the token expires. Brokers
    answer these commands to a user who has logged in: give the login with --command-config.
    """


@token.command()
@click.option(
    "--owner-principal",
    "owner",
    metavar="User:NAME",
    callback=_read_principal,
    help="User for whom the token is.  [default: the user that logs in]",
)
@click.option(
    "--renewer-principal",
    "renewers",
    multiple=True,
    metavar="User:NAME",
    callback=_read_principals,
    help="User who may renew and expire the token, as its owner may; can be repeated.",
)
@click.option(
    "--max-life-time-period",
    "life_ms",
    type=int,
    default=_DEFAULT_MS,
    metavar="MS",
    help="Longest life of the token in milliseconds.  [default: delegation.token.max.lifetime.ms of the brokers]",
)
@json_option
@broker_options
def create(
    owner: str | None,
    renewers: tuple[str, ...],
    life_ms: int,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Create a token and print it with its HMAC, the password of its holder. No other command prints the HMAC."""

    async def work(cluster: "Cluster") -> "DelegationToken":
        from tailrace.client.admin.core import Admin

        return await Admin(cluster).create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=life_ms)

    created = run_with_cluster(bootstrap_server, command_config, work)
    if as_json:
        write_json({**_document(created), "hmac": created.hmac})
        return
    write_line(f"token {created.token_id} of {created.owner} expires at {_shown(created.expiry_timestamp_ms)}")
    write_line(f"hmac {created.hmac}")


@token.command()
@click.argument("token_id", metavar="TOKEN")
@click.option(
    "--renew-time-period",
    "period_ms",
    type=int,
    default=_DEFAULT_MS,
    metavar="MS",
    help="Time until the token expires in milliseconds.  [default: delegation.token.expiry.time.ms of the brokers]",
)
@json_option
@broker_options
def renew(
    token_id: str, period_ms: int, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Let the token with the id TOKEN expire later, but not after the end of its life."""

    async def work(cluster: "Cluster") -> int:
        from tailrace.client.admin.core import Admin

        found = await _find(cluster, token_id)
        return await Admin(cluster).renew_delegation_token(found.hmac, renew_period_ms=period_ms)

    expiry_ms = run_with_cluster(bootstrap_server, command_config, work)
    _write_expiry(token_id, expiry_ms, as_json, f"token {token_id} expires at {_shown(expiry_ms)}")


@token.command()
@click.argument("token_id", metavar="TOKEN")
@click.option(
    "--expiry-time-period",
    "period_ms",
    type=int,
    default=_DEFAULT_MS,
    metavar="MS",
    help="Time until the token expires in milliseconds.  [default: it is removed at once]",
)
@json_option
@broker_options
def expire(
    token_id: str, period_ms: int, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Remove the token with the id TOKEN, or let it expire at another time."""

    async def work(cluster: "Cluster") -> int:
        from tailrace.client.admin.core import Admin

        found = await _find(cluster, token_id)
        return await Admin(cluster).expire_delegation_token(found.hmac, expiry_period_ms=period_ms)

    expiry_ms = run_with_cluster(bootstrap_server, command_config, work)
    done = "is removed" if period_ms < 0 else f"expires at {_shown(expiry_ms)}"
    _write_expiry(token_id, expiry_ms, as_json, f"token {token_id} {done}")


@token.command()
@click.option(
    "--owner-principal",
    "owners",
    multiple=True,
    metavar="User:NAME",
    callback=_read_principals,
    help="Only tokens that this user owns, asked for or may renew; can be repeated.",
)
@json_option
@broker_options
def describe(owners: tuple[str, ...], as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """List the tokens that the user who logs in may see, without their HMACs."""

    async def work(cluster: "Cluster") -> "list[DelegationToken]":
        from tailrace.client.admin.core import Admin

        return await Admin(cluster).describe_delegation_tokens(owners or None)

    found = run_with_cluster(bootstrap_server, command_config, work)
    if as_json:
        write_json([_document(each) for each in found])
        return
    headings = ("token", "owner", "requester", "renewers", "issued", "expires", "expires at the latest")
    write_table(headings, map(_row, found))


async def _find(cluster: "Cluster", token_id: str) -> "DelegationToken":
    """Return the token with an id. Changing it needs its HMAC, which no user has to put on a command line."""
    from tailrace.client.admin.core import Admin

    for found in await Admin(cluster).describe_delegation_tokens():
        if found.token_id == token_id:
            return found
    text = f"there is no token {token_id}, or the user who logs in may not see it"
    raise click.ClickException(f"{text}; `tailrace token describe` lists the others")


# --- output


def _document(token: "DelegationToken") -> dict[str, object]:
    return {
        "tokenId": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issueTimestampMs": token.issue_timestamp_ms,
        "expiryTimestampMs": token.expiry_timestamp_ms,
        "maxTimestampMs": token.max_timestamp_ms,
    }


def _row(token: "DelegationToken") -> Sequence[str]:
    times = (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms)
    return token.token_id, token.owner, token.requester, " ".join(token.renewers), *map(_shown, times)


def _write_expiry(token_id: str, expiry_ms: int, as_json: bool, line: str) -> None:
    if as_json:
        write_json({"tokenId": token_id, "expiryTimestampMs": expiry_ms})
    else:
        write_line(line)


def _shown(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
