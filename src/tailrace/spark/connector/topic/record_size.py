"""Records that are too large for the topic of a sink, which are found before they are sent.

A broker refuses a whole batch, and with it the transaction, so the writer cannot leave out one record afterwards.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.client.admin.core import ResourceType
from tailrace.client.admin.sync import Admin
from tailrace.client.setting import ProducerSettings
from tailrace.protocol.errors import ApiError
from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.reject import rejected_row
from tailrace.spark.connector.split import REASON, split_off, unpack_record
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.dead_letter import Fault, Rejected, Stage
from tailrace.spark.error import RowRefused
from tailrace.spark.option import parse_sink_options
from tailrace.spark.record_place import ORIGIN, RecordPlace, split_origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OVERHEAD_BYTES = 61 + 21  # the header of a batch, and the most that a record takes beside its key, value and headers
_HEADER_OVERHEAD_BYTES = 10
_BROKER_DEFAULT = 1_048_588  # of max.message.bytes


def leave_out_large(rows: "DataFrame", sink: Topic, place: FlowPlace) -> "DataFrame":
    """Reject the records that the sink's client or its topic would refuse."""
    from pyspark.sql.functions import base64, coalesce, col, expr, length, lit, struct, to_json, when

    limit = size_limit(sink, place)
    reason = f"a record is too large for {sink}"
    names = [name for name in ("key", "value") if name in rows.columns]
    size = lit(_OVERHEAD_BYTES)
    for name in names:
        size = size + coalesce(length(col(name).cast("binary")), lit(0))
    if "headers" in rows.columns:
        each = f"n + {_HEADER_OVERHEAD_BYTES} + octet_length(h.key) + coalesce(octet_length(h.value), 0)"
        size = size + coalesce(expr(f"aggregate(headers, 0, (n, h) -> {each})"), lit(0))
    checked = rows.withColumn(REASON, when(size > limit, lit(reason)))
    cells = [base64(col(name).cast("binary")).alias(name) for name in names]
    origin = split_origin(rows.columns)[1]
    packed = to_json(struct(*cells, size.alias("size"), *origin))
    return split_off(checked, [reason], lambda: packed, place.rejects, LargeRecord(reason, limit))


class LargeRecord:
    """Makes a rejected row of a record that is too large."""

    def __init__(self, reason: str, limit: int) -> None:
        self._reason = reason
        self._limit = limit

    def __call__(self, text: str) -> Rejected:
        row = unpack_record(text)
        error = RowRefused(f"{self._reason}: it takes {row['size']} bytes, of {self._limit}")
        origin = RecordPlace.unpack(row.get(ORIGIN))
        rejected = rejected_row(Stage.WRITE, Fault.of(error, type(self)), row.get("value"), origin)
        return replace(rejected, key=row.get("key"))


def size_limit(sink: Topic, place: FlowPlace) -> int:
    """Return the size of the largest record: that of the client, or of the topics where nothing is compressed."""
    client = parse_sink_options(sink.sink_options(place)).client
    settings = ProducerSettings(None, client.producer, {})
    if settings.compression_type != "none":
        return settings.max_request_size  # brokers compare the compressed size
    with Admin(config=client.admin) as admin:
        return min(settings.max_request_size, *(_topic_limit(admin, name) for name in sink.names))


def _topic_limit(admin: Admin, name: str) -> int:
    try:
        found = {each.name: each.value for each in admin.describe_configs(ResourceType.TOPIC, name)}
    except ApiError:
        found = {}  # the topic does not exist yet, and will have the default of the brokers
    return int(found.get("max.message.bytes") or _BROKER_DEFAULT)
