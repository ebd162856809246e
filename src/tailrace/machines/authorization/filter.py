"""ACL filters: the selection of bindings by DescribeAcls and DeleteAcls."""

from dataclasses import dataclass

from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A selection of bindings: by default all of them.

    Apart from the pattern type MATCH, a filter compares values: the principal `User:*`, the host `*` and the operation
    ALL select only bindings that have exactly these values, and the name `*` only those that have this name. A host is
    compared as it is written in the binding.
    """

    resource: Resource = Resource.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, binding: AclBinding) -> bool:
        """Whether the filter selects a binding."""
        return (
            self.principal in (None, binding.principal)
            and self.resource in (Resource.ANY, binding.resource)
            and self._matches_pattern(binding)
            and self.host in (None, binding.host)
            and self.operation in (Operation.ANY, binding.operation)
            and self.permission in (Permission.ANY, binding.permission)
        )

    def _matches_pattern(self, binding: AclBinding) -> bool:
        if self.pattern_type is not PatternType.MATCH:
            return self.pattern_type in (PatternType.ANY, binding.pattern_type) and self.name in (None, binding.name)
        if self.name is None:
            return True
        if binding.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(binding.name)
        return self.name == binding.name or binding.is_wildcard


def invalid_filter_reason(selection: AclFilter) -> str | None:
    """Say why a broker must reject a filter; None if it is valid."""
    fields = {
        "resource type": selection.resource,
        "pattern type": selection.pattern_type,
        "operation": selection.operation,
        "permission type": selection.permission,
    }
    unknown = [name for name, code in fields.items() if code.name == "UNKNOWN"]
    return f"The {' and the '.join(unknown)} of the ACL filter is unknown" if unknown else None
