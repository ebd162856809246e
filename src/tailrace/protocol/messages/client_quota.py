"""Quotas of clients, read and changed (KIP-546)."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, FLOAT64, INT8, INT16, INT32, STRING, array


class DescribeClientQuotasRequestComponent(Message):
    """A condition on one part of an entity, such as its user."""

    entity_type: str = wire(STRING, "0+")
    match_type: int = wire(INT8, "0+")  # 0 exact, 1 the default, 2 any
    match: str | None = wire(STRING, "0+", nullable="0+")


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    """Ask for the quotas of the entities that match; if strict, only of those without other parts."""

    components: list[DescribeClientQuotasRequestComponent] = wire(array(DescribeClientQuotasRequestComponent), "0+")
    strict: bool = wire(BOOLEAN, "0+")


class DescribeClientQuotasResponseEntity(Message):
    """One part of an entity; without a name it is the default."""

    entity_type: str = wire(STRING, "0+")
    entity_name: str | None = wire(STRING, "0+", nullable="0+")


class DescribeClientQuotasResponseValue(Message):
    """A quota."""

    key: str = wire(STRING, "0+")
    value: float = wire(FLOAT64, "0+")


class DescribeClientQuotasResponseEntry(Message):
    """An entity and its quotas."""

    entity: list[DescribeClientQuotasResponseEntity] = wire(array(DescribeClientQuotasResponseEntity), "0+")
    values: list[DescribeClientQuotasResponseValue] = wire(array(DescribeClientQuotasResponseValue), "0+")


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """The entities that match; null upon an error."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    entries: list[DescribeClientQuotasResponseEntry] | None = wire(
        array(DescribeClientQuotasResponseEntry), "0+", nullable="0+"
    )


class AlterClientQuotasRequestEntity(Message):
    """One part of an entity; without a name it is the default."""

    entity_type: str = wire(STRING, "0+")
    entity_name: str | None = wire(STRING, "0+", nullable="0+")


class AlterClientQuotasRequestOp(Message):
    """A quota to set or to remove."""

    key: str = wire(STRING, "0+")
    value: float = wire(FLOAT64, "0+")
    remove: bool = wire(BOOLEAN, "0+")


class AlterClientQuotasRequestEntry(Message):
    """An entity and the changes of its quotas."""

    entity: list[AlterClientQuotasRequestEntity] = wire(array(AlterClientQuotasRequestEntity), "0+")
    ops: list[AlterClientQuotasRequestOp] = wire(array(AlterClientQuotasRequestOp), "0+")


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    """Change quotas of entities."""

    entries: list[AlterClientQuotasRequestEntry] = wire(array(AlterClientQuotasRequestEntry), "0+")
    validate_only: bool = wire(BOOLEAN, "0+")


class AlterClientQuotasResponseEntity(Message):
    """One part of an entity; without a name it is the default."""

    entity_type: str = wire(STRING, "0+")
    entity_name: str | None = wire(STRING, "0+", nullable="0+")


class AlterClientQuotasResponseEntry(Message):
    """The outcome for one entity."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    entity: list[AlterClientQuotasResponseEntity] = wire(array(AlterClientQuotasResponseEntity), "0+")


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    """The outcome for each entity."""

    throttle_time_ms: int = wire(INT32, "0+")
    entries: list[AlterClientQuotasResponseEntry] = wire(array(AlterClientQuotasResponseEntry), "0+")
