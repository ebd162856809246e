"""Which rights the requests of the Connect service need, if its callers are users of the cluster.

Kafka's ACLs know no connectors, so the connector NAME has the rights of the consumer group `connect-NAME`, which is the
group of a sink in Kafka Connect; sources have those of a group with that name, too. A connector runs with the rights of
the service, so to set its config a caller also needs READ on the topics that it reads, and WRITE on those that it
writes.

`RULES` has each route. A route without a rule is closed.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from fastapi import Request

from tailrace.connect.core.error import ConnectError
from tailrace.connect.http.call import read_name, service_of
from tailrace.connect.offset import group_of
from tailrace.connect.plugin.error import ConfigError
from tailrace.connect.plugin.translation import translate
from tailrace.protocol.acl_code import Operation, Resource
from tailrace.web.edge import CHANGE
from tailrace.web.right import CLUSTER_NAME, Need, allowed, caller_of, first_missing, log_denial


class About(Enum):
    """What a rule's right is about."""

    NOTHING = auto()
    """Every caller may ask; the answer has nothing that needs a right."""
    SHOWN = auto()
    """Every caller may ask; the route leaves out what the caller may not see."""
    INSIDE = auto()
    """The name of the connector is in the body of the request, so the route checks it."""
    CONNECTOR = auto()
    CLUSTER = auto()


class Rule(NamedTuple):
    """The right that a route needs."""

    about: About
    operation: Operation = Operation.DESCRIBE
    is_change: bool = False


_OPEN = Rule(About.NOTHING)
_SEE = Rule(About.CONNECTOR)
_READ_CONFIG = Rule(About.CONNECTOR, Operation.DESCRIBE_CONFIGS)
_CHANGE = Rule(About.CONNECTOR, Operation.ALTER_CONFIGS, is_change=True)

_CONNECTOR = "/connectors/{connector}"

RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/"): _OPEN,
    ("GET", "/health"): _OPEN,
    ("GET", "/metrics"): Rule(About.CLUSTER),
    ("GET", "/admin/loggers"): Rule(About.CLUSTER, Operation.DESCRIBE_CONFIGS),
    ("GET", "/admin/loggers/{logger}"): Rule(About.CLUSTER, Operation.DESCRIBE_CONFIGS),
    ("PUT", "/admin/loggers/{logger}"): Rule(About.CLUSTER, Operation.ALTER_CONFIGS, is_change=True),
    ("GET", "/connector-plugins"): _OPEN,
    ("GET", "/connector-plugins/{plugin}/config"): _OPEN,
    ("PUT", "/connector-plugins/{plugin}/config/validate"): Rule(About.INSIDE),
    ("GET", "/connectors"): Rule(About.SHOWN),
    ("POST", "/connectors"): Rule(About.INSIDE, is_change=True),
    ("GET", _CONNECTOR): _READ_CONFIG,
    ("DELETE", _CONNECTOR): Rule(About.CONNECTOR, Operation.DELETE, is_change=True),
    ("GET", f"{_CONNECTOR}/config"): _READ_CONFIG,
    ("PUT", f"{_CONNECTOR}/config"): _CHANGE,
    ("PATCH", f"{_CONNECTOR}/config"): _CHANGE,
    ("GET", f"{_CONNECTOR}/status"): _SEE,
    ("PUT", f"{_CONNECTOR}/pause"): _CHANGE,
    ("PUT", f"{_CONNECTOR}/resume"): _CHANGE,
    ("PUT", f"{_CONNECTOR}/stop"): _CHANGE,
    ("POST", f"{_CONNECTOR}/restart"): _CHANGE,
    ("GET", f"{_CONNECTOR}/tasks"): _READ_CONFIG,
    ("GET", f"{_CONNECTOR}/tasks/{{task}}/status"): _SEE,
    ("POST", f"{_CONNECTOR}/tasks/{{task}}/restart"): _CHANGE,
    ("GET", f"{_CONNECTOR}/topics"): _SEE,
    ("PUT", f"{_CONNECTOR}/topics/reset"): _CHANGE,
    ("GET", f"{_CONNECTOR}/offsets"): _SEE,
    ("PATCH", f"{_CONNECTOR}/offsets"): _CHANGE,
    ("DELETE", f"{_CONNECTOR}/offsets"): _CHANGE,
}


async def enforce(request: Request) -> None:
    """Raise `ConnectError` if the caller does not have the right that the route of a request needs."""
    rule = RULES.get((request.method, request.scope["route"].path))
    if rule is not None and rule.is_change:
        request.scope[CHANGE] = request.scope["path"]
    if not caller_of(request).is_judged:
        return
    if rule is None:
        raise _denied(request, Need(Operation.ALL, Resource.CLUSTER, CLUSTER_NAME))
    if rule.about is About.CONNECTOR:
        await require(request, rule.operation, read_name(request.path_params["connector"]))
    elif rule.about is About.CLUSTER:
        await _require(request, Need(rule.operation, Resource.CLUSTER, CLUSTER_NAME))


async def require(request: Request, operation: Operation, connector: str) -> None:
    """Raise `ConnectError` unless the caller may perform an operation on a connector."""
    await _require(request, Need(operation, Resource.GROUP, group_of(connector)))


async def require_topics(request: Request, connector: str, config: Mapping[str, str]) -> None:
    """Raise `ConnectError` unless the caller may read and write the topics of a config; a wrong config has none."""
    if not caller_of(request).is_judged:
        return
    try:
        translation = translate(connector, config, service_of(request).options.worker)
    except ConfigError:
        return
    reads = [Need(Operation.READ, Resource.TOPIC, name) for name in translation.topics_read]
    written = [*translation.topics_written, *translation.dead_letter_topics]
    writes = [Need(Operation.WRITE, Resource.TOPIC, name) for name in dict.fromkeys(written)]
    await _require(request, *reads, *writes)


async def visible(request: Request, connectors: Sequence[str], operation: Operation) -> list[str]:
    """Return the connectors that the caller may perform an operation on."""
    groups = {name: group_of(name) for name in connectors}
    found = await allowed(request, operation, Resource.GROUP, groups.values())
    return [name for name, group in groups.items() if group in found]


async def _require(request: Request, *needs: Need) -> None:
    missing = await first_missing(request, *needs)
    if missing is not None:
        raise _denied(request, missing)


def _denied(request: Request, need: Need) -> ConnectError:
    log_denial(request, need.operation.name, need.resource.name, need.name)
    return ConnectError(403, f"User is denied operation {need}")
