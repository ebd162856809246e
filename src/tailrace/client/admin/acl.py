"""The admin calls for access control lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from tailrace.client.cluster import Cluster
from tailrace.protocol.acl_code import Operation, PatternType, Permission, Resource
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.acl import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

Word = TypeVar("Word", bound=IntEnum)


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """An access control list entry: a principal on a host is allowed or denied an operation on a resource.

    The words are Kafka's in small letters: the resource type is `topic`, `group`, `cluster`, `transactional_id`,
    `delegation_token` or `user`; the operation `read`, `write`, `describe_configs`, `all` and so on; the pattern type
    `literal` or `prefixed`. The principal has the form `User:alice`, and `User:*` is every user. The name `*` with the
    pattern type `literal` is every resource of the type.
    """

    resource_type: str
    name: str
    principal: str
    operation: str
    pattern_type: str = "literal"
    host: str = "*"
    permission: str = "allow"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A selection of ACLs: by default all of them. None selects every value.

    The pattern type `match` selects the ACLs that apply to a resource with the filter's name.
    """

    resource_type: str | None = None
    name: str | None = None
    principal: str | None = None
    operation: str | None = None
    pattern_type: str | None = None
    host: str | None = None
    permission: str | None = None


class AclAdmin:
    """The admin calls for access control lists."""

    _cluster: Cluster
    _timeout_ms: int

    async def create_acls(self, acls: Sequence[Acl]) -> dict[Acl, ApiError | None]:
        """Create ACLs. One that exists already is no error."""
        request = CreateAclsRequest(creations=[_creation(acl) for acl in acls])
        reply = await self._cluster.request_any(request, CreateAclsResponse)
        return {
            acl: _error(result.error_code, result.error_message)
            for acl, result in zip(acls, reply.results, strict=True)
        }

    async def describe_acls(self, selection: AclFilter | None = None) -> list[Acl]:
        """Return the ACLs that a filter selects, or all, in the order of their resources; raises `ApiError`."""
        chosen = selection or AclFilter()
        request = DescribeAclsRequest(
            resource_type_filter=_code(Resource, chosen.resource_type),
            resource_name_filter=chosen.name,
            pattern_type_filter=_code(PatternType, chosen.pattern_type),
            principal_filter=chosen.principal,
            host_filter=chosen.host,
            operation=_code(Operation, chosen.operation),
            permission_type=_code(Permission, chosen.permission),
        )
        reply = await self._cluster.request_any(request, DescribeAclsResponse)
        if error := _error(reply.error_code, reply.error_message):
            raise error
        return sorted(
            Acl(
                _word(Resource, found.resource_type),
                found.resource_name,
                acl.principal,
                _word(Operation, acl.operation),
                _word(PatternType, found.pattern_type),
                acl.host,
                _word(Permission, acl.permission_type),
            )
            for found in reply.resources
            for acl in found.acls
        )

    async def delete_acls(self, selections: Sequence[AclFilter]) -> dict[AclFilter, list[Acl] | ApiError]:
        """Delete the ACLs that filters select; the outcome of a filter is the list of those ACLs."""
        request = DeleteAclsRequest(filters=[_filter(selection) for selection in selections])
        reply = await self._cluster.request_any(request, DeleteAclsResponse)
        outcomes: dict[AclFilter, list[Acl] | ApiError] = {}
        for selection, result in zip(selections, reply.filter_results, strict=True):
            errors = [_error(acl.error_code, acl.error_message) for acl in result.matching_acls]
            first = next(filter(None, [_error(result.error_code, result.error_message), *errors]), None)
            outcomes[selection] = first or sorted(
                Acl(
                    _word(Resource, acl.resource_type),
                    acl.resource_name,
                    acl.principal,
                    _word(Operation, acl.operation),
                    _word(PatternType, acl.pattern_type),
                    acl.host,
                    _word(Permission, acl.permission_type),
                )
                for acl in result.matching_acls
            )
        return outcomes


def _creation(acl: Acl) -> CreateAclsRequestCreation:
    return CreateAclsRequestCreation(
        resource_type=_code(Resource, acl.resource_type),
        resource_name=acl.name,
        resource_pattern_type=_code(PatternType, acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=_code(Operation, acl.operation),
        permission_type=_code(Permission, acl.permission),
    )


def _filter(selection: AclFilter) -> DeleteAclsRequestFilter:
    return DeleteAclsRequestFilter(
        resource_type_filter=_code(Resource, selection.resource_type),
        resource_name_filter=selection.name,
        pattern_type_filter=_code(PatternType, selection.pattern_type),
        principal_filter=selection.principal,
        host_filter=selection.host,
        operation=_code(Operation, selection.operation),
        permission_type=_code(Permission, selection.permission),
    )


def _code(words: type[Word], text: str | None) -> Word:
    """Return the code of a word, None being any; raise ValueError if there is no such word."""
    name = "ANY" if text is None else text.upper().replace("-", "_")
    if name not in words.__members__ or name == "UNKNOWN":
        known = ", ".join(word.lower() for word in words.__members__ if word not in {"UNKNOWN", "ANY"})
        raise ValueError(f"{text!r} is not a word for an ACL's {words.__name__.lower()}; there are {known}")
    return words[name]


def _word(words: type[Word], code: int) -> str:
    return words(code).name.lower()


def _error(code: int, message: str | None) -> ApiError | None:
    return ApiError(ErrorCode(code), message) if code else None
