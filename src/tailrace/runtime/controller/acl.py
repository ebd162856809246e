"""The changes of ACLs: each request is one commit, by any broker."""

import logging
from collections.abc import Sequence

from tailrace.base.security_limits import ACLS_PER_REQUEST_MAX
from tailrace.base.text import printable
from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.filter import AclFilter
from tailrace.machines.controller.acl import AclRemoval, decide_create_acls, decide_delete_acls, has_acl
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import Record
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.controller.controller import Controller

log = logging.getLogger("tailrace.runtime")


async def create_acls(controller: Controller, image: ClusterImage, bindings: Sequence[AclBinding]) -> None:
    """Add ACLs, all or none."""
    _check_count(len(bindings))
    created: list[AclBinding] = []

    def decide() -> list[Record]:
        created[:] = (binding for binding in dict.fromkeys(bindings) if not has_acl(image, binding))
        return [*decide_create_acls(image, created)]

    await controller.change_as_any_broker(decide)
    for binding in created:
        log.info("created the ACL %s", _shown(binding))


async def delete_acls(
    controller: Controller, image: ClusterImage, selections: Sequence[AclFilter]
) -> list[list[AclBinding]]:
    """Remove the ACLs that filters select, all or none; return them for each filter."""
    removal = AclRemoval([], [])

    def decide() -> list[Record]:
        nonlocal removal
        removal = decide_delete_acls(image, selections)
        _check_count(sum(map(len, removal.removed)))
        return [*removal.records]

    await controller.change_as_any_broker(decide)
    for binding in dict.fromkeys(binding for bindings in removal.removed for binding in bindings):
        log.info("deleted the ACL %s", _shown(binding))
    return removal.removed


def _check_count(count: int) -> None:
    if count > ACLS_PER_REQUEST_MAX:
        message = f"The request changes {count} ACLs, but at most {ACLS_PER_REQUEST_MAX} can be changed at once."
        raise ApiError(ErrorCode.POLICY_VIOLATION, message)


def _shown(binding: AclBinding) -> str:
    resource, operation, permission = binding.resource.name, binding.operation.name, binding.permission.name
    pattern = f"{resource} {binding.pattern_type.name} {binding.name}"
    return printable(f"{permission} {operation} on {pattern} to {binding.principal} from {binding.host}")
