"""The same messages in kafka-python's classes, so that its codec can judge ours."""

import warnings
from typing import Any

from tests.protocol.sample import CASES

from tailrace.protocol.message import Message
from tailrace.protocol.messages.offset import ListOffsetsResponse
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.primitive import OPERATIONS_UNASKED, ZERO_UUID

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that Python is giving up
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl
    from kafka.protocol.api_message import ApiMessage

_MODULES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)

# Where kafka-python's word for a field is not Kafka 4.4's.
_OTHER_NAMES: dict[tuple[str, str], str] = {
    ("MetadataResponse", "authorized_operations"): "cluster_authorized_operations",
    ("MetadataResponseTopic", "authorized_operations"): "topic_authorized_operations",
    ("DescribeClusterResponse", "authorized_operations"): "cluster_authorized_operations",
    ("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch",
}


def find_class(cls: type[Message]) -> Any:
    """kafka-python's class for a message, or None if it does not know it."""
    for module in _MODULES:
        found = getattr(module, cls.__name__, None)
        if found is not None:
            return found
    return None


def knows(cls: type[Message], version: int) -> bool:
    found = find_class(cls)
    return found is not None and version <= found.max_version


COMPARED = [(cls, version) for cls, version in CASES if knows(cls, version)]
UNKNOWN = sorted({cls.__name__ for cls, _ in CASES if find_class(cls) is None})


def convert(message: Message, version: int) -> Any:
    """The message as an object of kafka-python's."""
    return _convert_struct(message, find_class(type(message)), version)


def reencode(cls: type[Message], data: bytes, version: int) -> bytes:
    """What kafka-python writes after it has read `data`."""
    target = find_class(cls)
    # The plain way to decode, and a header that its encoder may look for: some classes wrap both in habits of a client.
    message = ApiMessage.decode.__func__(target, data, version=version)
    message._header = None
    return bytes(message.encode())


def drop_extensions(message: Any) -> None:
    """Set the fields that only Tailrace has to their defaults, in which they are not sent."""
    if isinstance(message, ProduceRequest):
        message.mirror_claim = None
        for topic in message.topic_data:
            for partition in topic.partition_data:
                partition.mirror_from_offset = -1
    if isinstance(message, ListOffsetsResponse):
        for answer in (answer for listed in message.topics for answer in listed.partitions):
            answer.producers = []


def _convert_struct(message: Message, target: Any, version: int) -> Any:
    values = {}
    for name, field in target._struct.fields.items():
        if not field.for_version_q(version):
            continue
        value = getattr(message, _OTHER_NAMES.get((type(message).__name__, name), name))
        values[name] = _convert_value(value, field, version)
    return target(version=version, **values)


def _convert_value(value: Any, field: Any, version: int) -> Any:
    if field.type_str == "bitfield":
        bits = value & 0xFFFFFFFF
        return None if value == OPERATIONS_UNASKED else {bit for bit in range(32) if bits >> bit & 1}
    if value == ZERO_UUID and field.tag is not None:
        return None  # its default for an id, which it leaves out of the tagged section
    if isinstance(value, Message):
        return _convert_struct(value, field.data_class, version)
    if isinstance(value, list) and field.is_struct_array():
        return [_convert_struct(element, field.data_class, version) for element in value]
    return value
