"""The newest records of topics, as a batch."""

import json
from typing import TYPE_CHECKING

from tailrace.client.admin.sync import Admin
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.metadata import Topic as TopicView
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.spark.client_setting import BOOTSTRAP_SERVERS
from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.option import STREAM_ONLY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS_OF_A_PARTITION = 100
_STREAM_ONLY = frozenset(map(str.lower, STREAM_ONLY))


def read_newest(source: Topic, start: FlowStart) -> "DataFrame":
    """Read the newest records of each partition, as the reader of a batch returns them."""
    options = source.source_options(start.place)
    read = {name: text for name, text in options.items() if name.lower() not in _STREAM_ONLY}
    found = find_newest(source, start.place)
    read["startingOffsets"] = json.dumps({name: offsets for name, offsets in found.items() if offsets})
    return start.spark.read.format("tailrace").options(**read).load()


def find_newest(source: Topic, place: FlowPlace) -> dict[str, dict[str, int] | None]:
    """Return where the newest records of each partition begin, by topic; None for a topic that does not exist."""
    servers = source.source_options(place)[BOOTSTRAP_SERVERS]
    with Admin(config={**place.client, "bootstrap.servers": servers}) as admin:
        found = admin.describe_topics(source.names)
        return {name: _newest(admin, name, topic) for name, topic in found.items()}


def _newest(admin: Admin, name: str, topic: object) -> dict[str, int] | None:
    if not isinstance(topic, TopicView):
        return None
    partitions = range(len(topic.partitions))
    first = admin.list_offsets(name, dict.fromkeys(partitions, EARLIEST))
    last = admin.list_offsets(name, dict.fromkeys(partitions, LATEST), Isolation.READ_COMMITTED)
    return {str(index): max(first[index].offset, last[index].offset - RECORDS_OF_A_PARTITION) for index in partitions}
