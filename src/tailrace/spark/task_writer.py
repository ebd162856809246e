"""The rows of one task in one transaction, which stays prepared until the driver ends it."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

from tailrace.client.error import ClientError
from tailrace.client.produce.producer import Producer
from tailrace.client.transaction.state import PreparedTransaction
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.spark.client_setting import BOOTSTRAP_SERVERS, TRANSACTIONAL, ClientSettings
from tailrace.spark.error import WriteError
from tailrace.spark.option import SinkOptions
from tailrace.spark.task_place import TaskPlace
from tailrace.spark.topic_io import TASK_PATIENCE_MS, topic_io
from tailrace.spark.topic_writer import TopicWriter, explain
from tailrace.spark.transaction_name import TaskNames, sink_name

_ABORT_TIMEOUT_S = 5.0
_WITHOUT_TWO_PHASE_COMMIT = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

_lock = threading.Lock()
_names: dict[int, TaskNames] = {}


def write_prepared(
    options: SinkOptions, place: TaskPlace, batches: Iterator[Any]
) -> tuple[dict[str, int], PreparedTransaction | None]:
    """Write rows; returns their number by topic and the transaction, which is None without rows."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return {}, None  # most tasks after a shuffle have no rows
    require = partial(topic_io(options.client).require_topic, patience_ms=TASK_PATIENCE_MS)
    with _transaction(options.client, _take_name(sink_name(place.query_id, options.topic), place)) as producer:
        writer = TopicWriter(producer, options.topic, require)
        for batch in chain([first], batches):
            writer.write(batch)
        counts = writer.finish()
        try:
            return counts, producer.prepare_transaction()
        except (ClientError, ApiError, RemoteProtocolError) as error:
            raise explain(error) from None


@contextmanager
def _transaction(client: ClientSettings, name: str) -> Iterator[Producer]:
    """Provide a producer with an open transaction, which is aborted unless the block prepares it."""
    producer = Producer(config={**client.producer, **TRANSACTIONAL, "transactional.id": name})
    try:
        try:
            producer.begin_transaction()
        except (ClientError, ApiError, RemoteProtocolError) as error:
            raise _explain_begin(client, error) from None
        yield producer
    finally:
        producer.close(_ABORT_TIMEOUT_S)


def _explain_begin(client: ClientSettings, error: Exception) -> WriteError:
    if isinstance(error, ApiError) and error.code in _WITHOUT_TWO_PHASE_COMMIT:
        return WriteError(
            f"the brokers at {BOOTSTRAP_SERVERS} ({client.bootstrap_servers}) have no two-phase commit, with which "
            f"rows are written exactly once: {error}. Set transaction.two.phase.commit.enable=true there, or option "
            "delivery to at-least-once"
        )
    return explain(error)


def _take_name(sink: str, place: TaskPlace) -> str:
    with _lock:
        names = _names.setdefault(os.getpid(), TaskNames())  # a forked process needs its own
        return names.take(sink, place.run_id, place.batch_id)
