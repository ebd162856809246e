"""The entities that have quotas: users, client ids, users with a client id, and addresses (KIP-546, KIP-612)."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from tailrace.machines.controller.entity import entity_name, parse_entity_name
from tailrace.machines.controller.record import ConfigKind
from tailrace.protocol.errors import ApiError, ErrorCode

USER, CLIENT_ID, IP = ENTITY_TYPES = ("user", "client-id", "ip")
"""Kafka's names of the parts of an entity."""


class Default(Enum):
    """In place of a name: every user, client id or address that has no quota of its own."""

    DEFAULT = "<default>"


DEFAULT = Default.DEFAULT

Part = str | Default | None
"""A part of an entity: a name or the default; None if the entity does not have the part."""


class QuotaEntity(NamedTuple):
    """What has a quota. An entity with an address has no other part."""

    user: Part = None
    client_id: Part = None
    ip: Part = None

    @property
    def parts(self) -> dict[str, Part]:
        """The parts that the entity has, by type."""
        named = zip(ENTITY_TYPES, self, strict=True)
        return {entity_type: part for entity_type, part in named if part is not None}

    @property
    def place(self) -> tuple[ConfigKind, str]:
        """The kind and the name under which the quotas of the entity are stored."""
        if self.ip is not None:
            return ConfigKind.IP, entity_name(_stored(self.ip))
        if self.user is None:
            return ConfigKind.CLIENT, entity_name(_stored(self.client_id))
        if self.client_id is None:
            return ConfigKind.USER, entity_name(_stored(self.user))
        return ConfigKind.USER_CLIENT, entity_name(_stored(self.user), _stored(self.client_id))


QUOTA_KINDS = (ConfigKind.USER, ConfigKind.CLIENT, ConfigKind.USER_CLIENT, ConfigKind.IP)
"""The kinds of stored configs that hold quotas."""


def stored_entity(kind: ConfigKind, name: str) -> QuotaEntity:
    """Return the entity whose quotas are stored under a kind and a name."""
    parts: list[str | Default] = [DEFAULT if part is None else part for part in parse_entity_name(name)]
    match kind:
        case ConfigKind.IP:
            return QuotaEntity(ip=parts[0])
        case ConfigKind.CLIENT:
            return QuotaEntity(client_id=parts[0])
        case ConfigKind.USER:
            return QuotaEntity(user=parts[0])
    return QuotaEntity(user=parts[0], client_id=parts[1])


def requested_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity that a request names, or raise `ApiError`. A part without a name is the default."""
    if not parts:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for entity_type, name in parts.items():
        if entity_type not in ENTITY_TYPES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Empty {entity_type} not supported")
    if IP in parts and len(parts) > 1:
        message = "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    named = {entity_type: DEFAULT if name is None else name for entity_type, name in parts.items()}
    return QuotaEntity(named.get(USER), named.get(CLIENT_ID), named.get(IP))


def _stored(part: Part) -> str | None:
    return part if isinstance(part, str) else None
