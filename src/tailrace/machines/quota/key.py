"""The quotas that an entity may have, and the values that they take."""

import math
from enum import Enum

from tailrace.base.sentinel import INT32_MAX, INT64_MAX
from tailrace.machines.authorization.host import is_address
from tailrace.machines.quota.entity import QuotaEntity
from tailrace.protocol.errors import ApiError, ErrorCode

FRACTION_MAX = 1e-6
"""A whole number may be this far off, as in Kafka: the protocol transfers floating point numbers."""


class QuotaKey(Enum):
    """A quota, with Kafka's name."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


CLIENT_KEYS = (QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST, QuotaKey.MUTATION)
"""The quotas of users and client ids. An address has only the other one."""

QUOTA_NAMES = frozenset(key.value for key in QuotaKey)
"""The names of all quotas. The configs of a user have others too: SCRAM credentials."""

_WHOLE = {
    QuotaKey.PRODUCE: (float(INT64_MAX), "a LONG"),
    QuotaKey.FETCH: (float(INT64_MAX), "a LONG"),
    QuotaKey.CONNECTION: (float(INT32_MAX), "an INT"),
}
"""The quotas that are whole numbers, with their maximum and Kafka's name of the type."""


def check_quota(entity: QuotaEntity, name: str, value: float) -> str:
    """Return the text with which a quota of an entity is stored; raise `ApiError` if Kafka refuses the quota."""
    known = (QuotaKey.CONNECTION,) if entity.ip is not None else CLIENT_KEYS
    key = next((key for key in known if key.value == name), None)
    if key is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {name}")
    if not value > 0.0:  # Kafka accepts NaN, which would limit nothing
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {name} must be greater than 0")
    if key not in _WHOLE:
        if math.isinf(value):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {name} must be finite")
        return repr(value)
    maximum, type_name = _WHOLE[key]
    if value > maximum:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Proposed value for {name} is too large for {type_name}.")
    if value % 1.0 > FRACTION_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} cannot be a fractional value.")
    return str(max(1, int(value)))


def check_address(entity: QuotaEntity) -> None:
    """Raise `ApiError` if the entity has an address that is none. Kafka accepts names of hosts too."""
    if isinstance(entity.ip, str) and not is_address(entity.ip):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{entity.ip} is not a valid IP or resolvable host.")


def read_quota(text: str) -> float | None:
    """Return a stored quota; None if it is not a positive number, so that a damaged one limits nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 else None
