"""The desk of a sink over real brokers, with claims and decisions in a compacted topic.

Each Python worker of the driver that commits has its own desk; `claim` has the rules by which they take turns.
"""

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from tailrace.base.limits import (
    MIB,
    SPARK_CLUSTERS_KEPT_MAX,
    SPARK_DECISION_PARTITIONS,
    SPARK_ENDS_IN_FLIGHT_MAX,
    SPARK_SEARCH_INTERVAL_MS,
)
from tailrace.client.admin.core import NewTopic
from tailrace.client.admin.sync import Admin
from tailrace.client.error import ClientError, ProducerFenced, TransactionFailed
from tailrace.client.offset import LATEST
from tailrace.client.produce.producer import Producer
from tailrace.client.topic_partition import TopicPartition
from tailrace.client.transaction.state import PreparedTransaction
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.records.murmur2 import murmur2
from tailrace.spark.claim import Claim, check_run
from tailrace.spark.claimed_desk import ClaimedDesk
from tailrace.spark.client_setting import ClientSettings
from tailrace.spark.data_loss import Loss
from tailrace.spark.decision import Decision
from tailrace.spark.error import BrokerError, UnreadableRecord, WriteError
from tailrace.spark.plan import OffsetRange
from tailrace.spark.retriable import write_error
from tailrace.spark.topic_io import topic_io
from tailrace.spark.transaction_name import claim_name, driver_name, sink_name, sink_of_claim, task_names

TOPIC = "_tailrace_spark_decisions"
_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": str(24 * 3600 * 1000),
    # A driver reads its whole partition when it starts, and the newest segment is not compacted.
    "segment.bytes": str(16 * MIB),
    "min.cleanable.dirty.ratio": "0.1",
}
_REPLICATION_FACTOR_MAX = 3
# A worker that crashes while it decides blocks the other sinks of its partition for this long, unless its query
# restarts sooner. A busy machine needs seconds for a decision, so a shorter timeout would abort it.
_DECIDE_TIMEOUT_MS = 30_000
_READ_TIMEOUT_MS = 4 * _DECIDE_TIMEOUT_MS
_FORGOTTEN = ErrorCode.INVALID_PRODUCER_ID_MAPPING
OPEN = "Ongoing"


class _Keys(NamedTuple):
    """The keys of a sink's records."""

    decision: bytes
    claim: bytes


class TransactionDesk(ClaimedDesk):
    """The desk of one sink in one worker."""

    def __init__(self, settings: ClientSettings, sink: str) -> None:
        super().__init__(sink)
        self._settings = settings
        self._keys = _Keys(sink.encode(), claim_name(sink).encode())
        self._partition = TopicPartition(TOPIC, (murmur2(sink.encode()) & 0x7FFFFFFF) % SPARK_DECISION_PARTITIONS)
        self._admin = Admin(config=settings.admin)
        self._producer: Producer | None = None
        self._has_topic = False
        self._position = 0
        self._searched_at_s: float | None = None

    def forget(self) -> None:
        """Delete the claim and the decision; a restarted driver would consider its last batch undecided."""
        self._write(dict.fromkeys(self._keys, None))
        self._claim = self._decision = None

    def _take_id(self) -> None:
        if self._producer is not None:
            self._producer.close(0)
            self._producer = None
        producer = Producer(
            config=self._settings.admin,
            transactional_id=driver_name(self._sink),
            transaction_timeout_ms=_DECIDE_TIMEOUT_MS,
        )
        try:
            producer.init_transactions()
        except (ClientError, ApiError, RemoteProtocolError) as error:
            producer.close(0)
            raise self._explain("decided", error) from None
        self._producer = producer

    def _write_claim(self, claim: Claim) -> None:
        self._write({self._keys.claim: claim.encode()})

    def _write_decision(self, decision: Decision) -> None:
        self._write({self._keys.decision: decision.encode()})

    def _write(self, values: Mapping[bytes, bytes | None]) -> None:
        producer, run_id = self._producer, self._run_id
        if producer is None or run_id is None:
            raise WriteError(f"a worker that has not claimed {self._sink} cannot decide for it")
        topic, partition = self._partition
        try:
            with producer.transaction():
                for key, value in values.items():
                    producer.send(topic, value, key, partition=partition)
        except (ProducerFenced, TransactionFailed) as error:
            with suppress(BrokerError):
                self._look()
            check_run(self._claim, run_id, self._sink)
            raise self._explain("decided", error) from None
        except (ClientError, ApiError, RemoteProtocolError) as error:
            raise self._explain("decided", error) from None

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
        """End prepared transactions. Idempotent."""
        if not transactions:
            return
        with ThreadPoolExecutor(min(len(transactions), SPARK_ENDS_IN_FLIGHT_MAX)) as pool:
            for _ in pool.map(partial(self._end, commit=commit), transactions):
                pass

    def find_open(self, transactions: Sequence[PreparedTransaction]) -> list[PreparedTransaction]:
        """Return the transactions that have not ended; the id of an ended one may be in use again."""
        found = set(self._open_under([name for name, *_ in transactions]))
        return [prepared for prepared in transactions if prepared in found]

    def is_search_due(self) -> bool:
        """Return whether the last search for remains was long ago."""
        at_s = self._searched_at_s
        return at_s is None or (time.monotonic() - at_s) * 1000 >= SPARK_SEARCH_INTERVAL_MS

    def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> list[PreparedTransaction]:
        """Return the open transactions of the sink's tasks, except decided ones and those with these ids."""
        try:
            listed = self._admin.list_transactions(states=[OPEN], pattern=re.escape(task_names(self._sink)) + ".*")
        except (ClientError, ApiError, RemoteProtocolError) as error:
            raise self._explain("cleaned up", error) from None
        known = set(names)
        found = self._open_under([each.transactional_id for each in listed if each.transactional_id not in known])
        self._searched_at_s = time.monotonic()
        return found if decided is None else [each for each in found if each not in decided.transactions]

    def close(self) -> None:
        """Close the connections."""
        if self._producer is not None:
            self._producer.close(0)
        self._admin.close()

    def _open_under(self, names: Sequence[str]) -> list[PreparedTransaction]:
        """Return the open transactions of these ids."""
        try:
            outcomes = self._admin.describe_transactions(names)
        except (ClientError, ApiError, RemoteProtocolError) as error:
            raise self._explain("looked for", error) from None
        found = []
        for name, outcome in outcomes.items():
            if not isinstance(outcome, ApiError):
                if outcome.state == OPEN:
                    found.append(PreparedTransaction(name, outcome.producer_id, outcome.producer_epoch))
            elif outcome.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise self._explain("looked for", outcome)
        return found

    def _end(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        try:
            self._admin.complete_transaction(prepared, commit=commit)
        except ProducerFenced as error:
            # An id expires after days without use, but never with an open transaction.
            is_forgotten = isinstance(cause := error.__cause__, ApiError) and cause.code is _FORGOTTEN
            if commit and not is_forgotten:
                raise self._explain("committed", error) from None
        except (ClientError, ApiError, RemoteProtocolError) as error:
            raise self._explain("committed" if commit else "aborted", error) from None

    def _make_topic(self) -> None:
        if self._has_topic:
            return
        topics = topic_io(self._settings)
        found = topics.partition_counts([TOPIC])
        if TOPIC not in found:
            try:
                broker_count = len(self._admin.describe_cluster().nodes)
                factor = min(broker_count, _REPLICATION_FACTOR_MAX)
                new = NewTopic(TOPIC, SPARK_DECISION_PARTITIONS, factor, _CONFIGS)
                outcome = self._admin.create_topics([new])[TOPIC]
            except (ClientError, ApiError, RemoteProtocolError) as error:
                raise self._explain("decided", error) from None
            if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise self._explain("decided", outcome)
        elif found[TOPIC] < SPARK_DECISION_PARTITIONS:
            raise WriteError(f"topic {TOPIC} has {found[TOPIC]} partitions, but {SPARK_DECISION_PARTITIONS} are needed")
        self._has_topic = True

    def _look(self) -> None:
        self._make_topic()
        self._read_to(self._end_offset("read_committed"))

    def _read(self) -> None:
        self._read_to(self._end_offset("read_uncommitted"))

    def _end_offset(self, isolation: str) -> int:
        found = topic_io(self._settings.with_isolation(isolation)).offsets({self._partition: LATEST})
        return found[self._partition] or 0

    def _read_to(self, end_offset: int) -> None:
        wanted = OffsetRange(*self._partition, self._position, end_offset)
        if not wanted.size:
            return
        topics = topic_io(self._settings.with_isolation("read_committed"))
        for batch in topics.read([wanted], ("key", "value"), timeout_ms=_READ_TIMEOUT_MS, loss=Loss()):
            for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                self._replay(key, value)
        self._position = wanted.end

    def _replay(self, key: bytes, value: bytes | None) -> None:
        try:
            if key == self._keys.decision:
                self._decision = None if value is None else Decision.decode(value)
            elif key == self._keys.claim:
                self._claim = None if value is None else Claim.decode(value)
        except UnreadableRecord as error:
            raise WriteError(f"topic {TOPIC} has an unreadable record for {self._sink}: {error}") from None

    def _explain(self, what: str, error: Exception) -> WriteError:
        return write_error(f"a batch of {self._sink} could not be {what}: {error}", error)


def decided_sinks(settings: ClientSettings, query_id: str) -> set[str]:
    """Return the sinks of a query that have a claim or a decision."""
    topics = topic_io(settings.with_isolation("read_committed"))
    partitions = [TopicPartition(TOPIC, index) for index in range(topics.partition_counts([TOPIC]).get(TOPIC, 0))]
    found: dict[str, bool] = {}
    for (topic, index), end in topics.offsets(dict.fromkeys(partitions, LATEST)).items():
        wanted = OffsetRange(topic, index, 0, end or 0)
        if wanted.size:
            for batch in topics.read([wanted], ("key", "value"), timeout_ms=_READ_TIMEOUT_MS, loss=Loss()):
                keys, values = (column.to_pylist() for column in batch.columns)
                found |= {key.decode(): value is not None for key, value in zip(keys, values, strict=True)}
    sinks = {sink_of_claim(name) or name for name, is_set in found.items() if is_set}
    return {sink for sink in sinks if sink.startswith(sink_name(query_id, None))}


_lock = threading.Lock()
_desks: dict[tuple[int, ClientSettings, str], TransactionDesk] = {}


@contextmanager
def open_desk(settings: ClientSettings, sink: str) -> Iterator[TransactionDesk]:
    """Provide the desk of a sink, which stays open for the next batch unless the block fails."""
    key = os.getpid(), settings, sink
    with _lock:
        desk = _desks.pop(key, None)
    desk = desk or TransactionDesk(settings, sink)
    try:
        yield desk
    except BaseException:
        desk.close()
        raise
    with _lock:
        _desks[key] = desk
        oldest = [_desks.pop(next(iter(_desks))) for _ in range(len(_desks) - SPARK_CLUSTERS_KEPT_MAX)]
    for other in oldest:
        other.close()
