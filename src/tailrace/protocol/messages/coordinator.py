"""Messages that find the coordinator of a group or a transactional id."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT8, INT16, INT32, STRING, array


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    """Request the coordinator of a key or, from version 4, of several keys (KIP-699)."""

    key: str = wire(STRING, "0-3")
    key_type: int = wire(INT8, "1+")  # 0 group, 1 transactional id, 2 share group
    coordinator_keys: list[str] = wire(array(STRING), "4+")


class FindCoordinatorResponseCoordinator(Message):
    """The coordinator of one key."""

    key: str = wire(STRING, "4+")
    node_id: int = wire(INT32, "4+")
    host: str = wire(STRING, "4+")
    port: int = wire(INT32, "4+")
    error_code: int = wire(INT16, "4+")
    error_message: str | None = wire(STRING, "4+", nullable="4+", ignorable=True)


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    """The coordinator, or the coordinator of each key."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "0-3")
    error_message: str | None = wire(STRING, "1-3", nullable="1-3", ignorable=True)
    node_id: int = wire(INT32, "0-3")
    host: str = wire(STRING, "0-3")
    port: int = wire(INT32, "0-3")
    coordinators: list[FindCoordinatorResponseCoordinator] = wire(array(FindCoordinatorResponseCoordinator), "4+")
