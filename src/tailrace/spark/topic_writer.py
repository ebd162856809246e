"""The writer of one task's rows, which waits for all acknowledgements at the end."""

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tailrace.base.limits import SPARK_WRITE_BYTES
from tailrace.client.error import ClientError, RecordTooLarge
from tailrace.client.produce.producer import Producer
from tailrace.client.produce.table import TableDelivery
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.spark.error import WriteError
from tailrace.spark.retriable import write_error
from tailrace.spark.table import join, split_by_topic


class TopicWriter:
    """Writes `pyarrow.RecordBatch`es; small ones are combined, because each batch has a fixed cost."""

    def __init__(self, producer: Producer, topic: str | None, require_topic: Callable[[str], None]) -> None:
        self._producer = producer
        self._topic = topic
        self._require_topic = require_topic
        self._held: list[Any] = []
        self._held_bytes = 0
        self._under_way: deque[Future[TableDelivery]] = deque()
        self._counts: Counter[str] = Counter()

    def write(self, batch: Any) -> None:
        """Write rows; raises `WriteError` if earlier rows could not be written."""
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= SPARK_WRITE_BYTES:
            self._send()

    def finish(self) -> dict[str, int]:
        """Wait for all acknowledgements; returns the number of rows by topic."""
        self._send()
        try:
            self._producer.flush()
        except ClientError as error:
            raise explain(error) from None
        self._settle(wait=True)
        return dict(self._counts)

    def _send(self) -> None:
        if not self._held:
            return
        table = join(self._held)
        self._held, self._held_bytes = [], 0
        for topic, rows in split_by_topic(table, self._topic):
            self._require_topic(topic)
            try:
                self._under_way.append(self._producer.send_table(topic, rows))
            except (ClientError, ApiError, RemoteProtocolError, TypeError, ValueError) as error:
                raise explain(error, topic) from None
        self._settle(wait=False)

    def _settle(self, *, wait: bool) -> None:
        while self._under_way and (wait or self._under_way[0].done()):
            try:
                delivery = self._under_way.popleft().result()
            except (ClientError, ApiError, RemoteProtocolError) as error:
                raise explain(error) from None
            self._counts[delivery.topic] += delivery.record_count


def explain(error: Exception, topic: str | None = None) -> WriteError:
    """Return an error that says what to change."""
    where = "rows were not written" if topic is None else f"rows were not written to topic {topic}"
    if isinstance(error, RecordTooLarge):
        return WriteError(f"{where}: {error}. Raise option kafka.max.request.size, or make column value smaller")
    if isinstance(error, ApiError) and error.code is ErrorCode.MESSAGE_TOO_LARGE:
        return WriteError(f"{where}: {error}. Raise max.message.bytes of the topic, or make column value smaller")
    if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return WriteError(f"{where}: {error}. Drop column partition, or make it null, to have the key decide")
    return write_error(f"{where}: {error}", error)
