"""The audit log: denials and administrative changes, one line of JSON each, for the logger `tailrace.audit`.

A denial is logged when a client was denied what it asked for. Equal denials within an interval are counted, and the
last line of the interval tells how many there were; so a client that tries again and again writes two lines a minute. A
change is logged when the request that asked for it is answered, with its outcome. Every change that succeeds is logged.
Of different denials and of changes that fail, each principal has a number of lines in an interval, and the rest is
counted; so a client cannot hide what other principals are denied. Long texts and long lists are cut. Secrets are never
logged, nor are the values of configs that topics and groups do not have, which may be secrets.

Lines have these fields, and further ones that say what was changed:

| field | meaning |
| --- | --- |
| `time` | when, in UTC |
| `event` | `denial` or `change` |
| `principal`, `host`, `listener`, `client_id` | the client, and the listener by which its request came |
| `forwarded_by`, `forwarded_from` | if a broker forwarded the request: the principal and the host of that broker |
| `api` | the API, by its name in the protocol |
| `operation` | of a denial: the operation that the client is not allowed |
| `resource_type`, `name` | what it is about |
| `error` | the outcome: `NONE`, or the name of the error |
| `count` | of denials: how many equal ones there were since the line before |
| `count`, `note` | at the end of an interval: how many denials or failed changes of a principal have no lines |
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.base.clock import Clock
from tailrace.base.security_limits import (
    AUDIT_DENIALS_PER_PRINCIPAL_MAX,
    AUDIT_FAILURES_PER_PRINCIPAL_MAX,
    AUDIT_INTERVAL_S,
    AUDIT_PRINCIPALS_MAX,
)
from tailrace.machines.authorization.vocabulary import CLUSTER_NAME, Operation, Resource
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.server.context import is_between_brokers
from tailrace.server.security.audit_change import Change, changes
from tailrace.server.security.audit_line import audit_line, cut, cut_text

if TYPE_CHECKING:
    from tailrace.server.context import RequestContext

log = logging.getLogger("tailrace.audit")

_ERRORS = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    Resource.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
_DENIED = frozenset(_ERRORS.values())
_OTHERS = "others"
"""In place of the principals beyond the bound. A principal has a colon."""


class Client(NamedTuple):
    """The client of a request, as the log names it."""

    principal: str
    host: str
    listener: str
    client_id: str
    api: str
    forwarded_by: str
    forwarded_from: str

    def fields(self) -> dict[str, str]:
        """Return the fields of a line; those of the broker are left out if the client itself sent the request."""
        return {name: value for name, value in self._asdict().items() if value or not name.startswith("forwarded")}


class Denial(NamedTuple):
    """What a client was denied."""

    client: Client
    operation: str
    resource_type: str
    name: str
    error: str


class Tally:
    """What one principal was denied, and failed to change, within an interval."""

    def __init__(self) -> None:
        self.repeats: dict[Denial, int] = {}
        self.unlogged_denial_count = 0
        self.failure_count = 0

    @property
    def unlogged_failure_count(self) -> int:
        return max(0, self.failure_count - AUDIT_FAILURES_PER_PRINCIPAL_MAX)


class AuditLog:
    """The audit log of a broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tallies: dict[str, Tally] = {}
        self._timer: asyncio.TimerHandle | None = None

    def deny(self, context: RequestContext, operation: Operation, resource: Resource, name: str) -> None:
        """Log that the client of a request was denied an operation, unless that was logged a moment ago."""
        denial = Denial(_client(context), operation.name, resource.name, cut_text(name), _ERRORS[resource].name)
        tally = self._tally(denial.client.principal)
        if denial in tally.repeats:
            tally.repeats[denial] += 1
        elif len(tally.repeats) >= AUDIT_DENIALS_PER_PRINCIPAL_MAX:
            tally.unlogged_denial_count += 1
        else:
            tally.repeats[denial] = 0
            self._write_denial(denial, 1)

    def note(self, context: RequestContext, request: Message, response: Message) -> None:
        """Log what a request has changed, if it is one of an administrator."""
        if context.header.api_key == ApiKey.WRITE_TXN_MARKERS and _is_broker(context):
            return  # a coordinator ends a transaction
        for change in changes(request, response):
            if change.error not in _DENIED:  # denials have their own lines
                self._note_change(_client(context), change)

    def note_created(self, context: RequestContext, topic: str, error: ErrorCode) -> None:
        """Log that a request needed a topic that did not exist, and so created it, or failed to."""
        self._note_change(_client(context), Change("TOPIC", topic, {"change": "create on first use"}, error))

    def close(self) -> None:
        """Log what was only counted so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._end_interval()

    def _note_change(self, client: Client, change: Change) -> None:
        if change.error is not ErrorCode.NONE:
            tally = self._tally(client.principal)
            tally.failure_count += 1
            if tally.failure_count > AUDIT_FAILURES_PER_PRINCIPAL_MAX:
                return
        about = {"resource_type": change.resource_type, "name": cut_text(change.name), **cut(change.details)}
        self._write("change", {**client.fields(), **about, "error": change.error.name})

    def _tally(self, principal: str) -> Tally:
        """Return the tally of a principal in this interval; those beyond the bound have one together."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(AUDIT_INTERVAL_S, self._end_interval)
        if principal not in self._tallies and len(self._tallies) >= AUDIT_PRINCIPALS_MAX:
            principal = _OTHERS
        return self._tallies.setdefault(principal, Tally())

    def _end_interval(self) -> None:
        self._timer = None
        tallies, self._tallies = self._tallies, {}
        for principal, tally in tallies.items():
            for denial, count in tally.repeats.items():
                if count:
                    self._write_denial(denial, count)
            self._write_rest("denial", "denials", principal, tally.unlogged_denial_count)
            self._write_rest("change", "changes that failed", principal, tally.unlogged_failure_count)

    def _write_denial(self, denial: Denial, count: int) -> None:
        client, *_ = denial
        about = {name: value for name, value in denial._asdict().items() if name != "client"}
        self._write("denial", {**client.fields(), **about, "count": count})

    def _write_rest(self, event: str, what: str, principal: str, count: int) -> None:
        if count:
            note = f"further {what}, which are not logged one by one"
            self._write(event, {"principal": principal, "count": count, "note": note})

    def _write(self, event: str, fields: dict[str, Any]) -> None:
        log.info("%s", audit_line(self._clock.now_ms(), event, fields))


def _is_broker(context: RequestContext) -> bool:
    """Return whether a request can be a broker's: by its listener and by the right of brokers."""
    return is_between_brokers(context.broker, context.connection) and context.is_allowed(
        Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, is_probe=True
    )


def _client(context: RequestContext) -> Client:
    return Client(
        cut_text(context.principal),
        context.host,
        context.connection.listener_name,
        cut_text(context.header.client_id or ""),
        ApiKey(context.header.api_key).name,
        cut_text(context.connection.principal) if context.is_forwarded else "",
        context.connection.host if context.is_forwarded else "",
    )
