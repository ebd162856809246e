"""The admin calls for quotas of clients (KIP-546)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tailrace.client.cluster import Cluster
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.client_quota import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
)

_TYPES = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _ANY = 0, 1, 2


class QuotaName(Enum):
    """In place of a name: the default for those without a quota of their own, or, in a search, any name."""

    DEFAULT = "<default>"
    ANY = "<any>"


Name = str | QuotaName | None


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The clients that have a quota: those of a user, with a client id, with both, or from an address.

    `QuotaName.DEFAULT` stands for every user, client id or address without a quota of its own.
    """

    user: Name = None
    client_id: Name = None
    ip: Name = None

    @property
    def parts(self) -> dict[str, str | QuotaName]:
        """The parts that are set, by Kafka's names: user, client-id and ip."""
        named = zip(_TYPES, (self.user, self.client_id, self.ip), strict=True)
        return {entity_type: name for entity_type, name in named if name is not None}


class QuotaAdmin:
    """The admin calls for quotas of clients."""

    _cluster: Cluster
    _timeout_ms: int

    async def describe_client_quotas(
        self, match: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of all entities, or of those with these parts; if strict, only of those without others."""
        components = [_component(entity_type, name) for entity_type, name in (match.parts if match else {}).items()]
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        reply = await self._cluster.request_any(request, DescribeClientQuotasResponse)
        if error := _error(reply.error_code, reply.error_message):
            raise error
        return {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): {
                value.key: value.value for value in entry.values
            }
            for entry in reply.entries or []
        }

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[QuotaEntity, ApiError | None]:
        """Set quotas by name, such as `producer_byte_rate`, for each entity; None removes one."""
        request = AlterClientQuotasRequest(
            entries=[_entry(entity, quotas) for entity, quotas in changes.items()], validate_only=validate_only
        )
        reply = await self._cluster.request_any(request, AlterClientQuotasResponse)
        return {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): _error(
                entry.error_code, entry.error_message
            )
            for entry in reply.entries
        }


def _component(entity_type: str, name: str | QuotaName) -> DescribeClientQuotasRequestComponent:
    if isinstance(name, str):
        return DescribeClientQuotasRequestComponent(entity_type=entity_type, match_type=_EXACT, match=name)
    match_type = _DEFAULT if name is QuotaName.DEFAULT else _ANY
    return DescribeClientQuotasRequestComponent(entity_type=entity_type, match_type=match_type, match=None)


def _entry(entity: QuotaEntity, quotas: Mapping[str, float | None]) -> AlterClientQuotasRequestEntry:
    if QuotaName.ANY in entity.parts.values():
        raise ValueError("QuotaName.ANY is for searches; QuotaName.DEFAULT has a quota")
    return AlterClientQuotasRequestEntry(
        entity=[
            AlterClientQuotasRequestEntity(entity_type=entity_type, entity_name=name if isinstance(name, str) else None)
            for entity_type, name in entity.parts.items()
        ],
        ops=[
            AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )


def _entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    user, client_id, ip = (
        (QuotaName.DEFAULT if parts[entity_type] is None else parts[entity_type]) if entity_type in parts else None
        for entity_type in _TYPES
    )
    return QuotaEntity(user, client_id, ip)


def _error(code: int, message: str | None) -> ApiError | None:
    return ApiError(ErrorCode(code), message) if code else None
