"""The rights of the caller of a request, for services whose callers are users of the cluster."""

from collections.abc import Collection, Container
from typing import NamedTuple

from fastapi import Request

from tailrace.protocol.acl_code import Operation, Resource
from tailrace.web.audit import Denial, ServiceAudit
from tailrace.web.caller import CALLER, Caller

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class Need(NamedTuple):
    """A right that a request needs."""

    operation: Operation
    resource: Resource
    name: str

    def __str__(self) -> str:
        return f"{_title(self.operation)} on {_title(self.resource)}: {self.name}"


def _title(code: Operation | Resource) -> str:
    """Return an operation or a resource type as kafka-acls writes it, such as AlterConfigs."""
    return "".join(part.title() for part in code.name.split("_"))


def caller_of(request: Request) -> Caller:
    """Return the caller of a request."""
    caller: Caller = request.scope[CALLER]
    return caller


async def allowed(request: Request, operation: Operation, resource: Resource, names: Collection[str]) -> Container[str]:
    """Return on which of some resources the caller of a request may perform an operation."""
    return await caller_of(request).allowed(operation, resource, names)


async def first_missing(request: Request, *needs: Need) -> Need | None:
    """Return the first right that the caller of a request needs and does not have; None if it has all."""
    for need in needs:
        if need.name not in await allowed(request, need.operation, need.resource, [need.name]):
            return need
    return None


def log_denial(request: Request, operation: str, resource_type: str, name: str) -> None:
    """Write a denial to the audit log."""
    audit: ServiceAudit | None = request.app.state.audit
    if audit is not None:
        host = request.client.host if request.client is not None else ""
        api = f"{request.method} {getattr(request.scope.get('route'), 'path', '')}"
        audit.deny(Denial(caller_of(request).principal, host, api, operation, resource_type, name, 403))
