"""The filter of DescribeClientQuotas: which entities are listed."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from tailrace.machines.quota.entity import CLIENT_ID, DEFAULT, ENTITY_TYPES, IP, USER, Default, QuotaEntity
from tailrace.protocol.errors import ApiError, ErrorCode


class MatchType(IntEnum):
    """How the name of a part is matched, with Kafka's codes."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Conditions on the parts of an entity: a name or the default, or None for any; if strict, on all of its parts."""

    parts: dict[str, str | Default | None]
    is_strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether an entity fulfils the conditions."""
        parts = entity.parts
        if self.is_strict and len(parts) != len(self.parts):
            return False
        return all(name in parts and (wanted is None or parts[name] == wanted) for name, wanted in self.parts.items())


def read_filter(components: Iterable[tuple[str, int, str | None]], *, is_strict: bool) -> QuotaFilter:
    """Return the filter of a request: for each part its type, how it is matched, and its name. Raise `ApiError`."""
    parts: dict[str, str | Default | None] = {}
    for entity_type, match_type, name in components:
        if not entity_type:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if entity_type in parts:
            message = f"Entity type {entity_type} cannot appear more than once in the filter."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        if entity_type not in ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
        parts[entity_type] = _wanted(match_type, name)
    if IP in parts and (USER in parts or CLIENT_ID in parts):
        message = (
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    return QuotaFilter(parts, is_strict)


def _wanted(match_type: int, name: str | None) -> str | Default | None:
    match match_type:
        case MatchType.EXACT:
            if name is None:
                message = "Request specified MATCH_TYPE_EXACT, but set match string to null."
                raise ApiError(ErrorCode.INVALID_REQUEST, message)
            return name
        case MatchType.DEFAULT | MatchType.ANY:
            if name is not None:
                shown = "MATCH_TYPE_DEFAULT" if match_type == MatchType.DEFAULT else "MATCH_TYPE_SPECIFIED"
                message = f"Request specified {shown}, but also specified a match string."
                raise ApiError(ErrorCode.INVALID_REQUEST, message)
            return DEFAULT if match_type == MatchType.DEFAULT else None
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}")
