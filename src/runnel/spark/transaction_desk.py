"""The desk of a sink over real brokers: claims and decisions in a compacted topic, ends by an admin client.

Each Python worker of the driver that commits has a desk of its own for the sink; `claim` says how they take turns.
"""

import os
import re
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from runnel.base.limits import (
    MIB,
    SPARK_CLUSTERS_KEPT_MAX,
    SPARK_DECISION_BYTES_MAX,
    SPARK_DECISION_PARTITIONS,
    SPARK_ENDS_IN_FLIGHT_MAX,
    SPARK_SEARCH_INTERVAL_MS,
)
from runnel.client.admin import NewTopic
from runnel.client.error import ClientError, ProducerFenced, TransactionFailed
from runnel.client.offset import LATEST
from runnel.client.producer import Producer
from runnel.client.sync_admin import Admin
from runnel.client.topic_partition import TopicPartition
from runnel.client.transaction_state import PreparedTransaction
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.records.murmur2 import murmur2
from runnel.spark.batch_end import Standing
from runnel.spark.claim import Claim, check_run, extend_claim, list_remains
from runnel.spark.client_setting import ClientSettings
from runnel.spark.data_loss import Loss
from runnel.spark.decision import Decision
from runnel.spark.error import UnreadableRecord, WriteError
from runnel.spark.plan import OffsetRange
from runnel.spark.retriable import write_error
from runnel.spark.topic_io import topic_io
from runnel.spark.transaction_name import claim_name, driver_name, sink_name, task_names

TOPIC = "_runnel_spark_decisions"
_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": str(24 * 3600 * 1000),
    # A driver reads its whole partition when it starts, and what is in the newest segment is not compacted.
    "segment.bytes": str(16 * MIB),
    "min.cleanable.dirty.ratio": "0.1",
}
_REPLICATION_FACTOR_MAX = 3
# A worker that dies while it decides holds up the other sinks of its partition for this long, unless its own query
# comes back sooner. A busy machine needs seconds for a decision, and would lose it to a shorter time-out.
_DECIDE_TIMEOUT_MS = 60_000
_READ_TIMEOUT_MS = 2 * _DECIDE_TIMEOUT_MS
_FORGOTTEN = ErrorCode.INVALID_PRODUCER_ID_MAPPING
OPEN = "Ongoing"


class _Keys(NamedTuple):
    """The keys of a sink's records."""

    decision: bytes
    claim: bytes


class TransactionDesk:
    """The desk of one sink in one worker. One that has raised an error is not to be used again."""

    def __init__(self, settings: ClientSettings, sink: str) -> None:
        self._settings = settings
        self._sink = sink
        self._worker = uuid.uuid4().hex
        self._keys = _Keys(sink.encode(), claim_name(sink).encode())
        self._partition = TopicPartition(TOPIC, (murmur2(sink.encode()) & 0x7FFFFFFF) % SPARK_DECISION_PARTITIONS)
        self._admin = Admin(config=settings.admin)
        self._producer: Producer | None = None
        self._has_topic = False
        self._position = 0
        self._claim: Claim | None = None
        self._decision: Decision | None = None
        self._run_id: str | None = None
        self._searched_at_s: float | None = None

    def take(self, run_id: str) -> Standing:
        """Keep other workers and earlier runs from deciding.

        Raises `RunReplaced` if a later run of the query has claimed the sink.
        """
        self._make_topic()
        self._read()
        check_run(self._claim, run_id, self._sink)  # before the id is taken from the run that replaced this one
        if self._producer is None or not self._is_holder:
            self._take_id()
            self._read()
            check_run(self._claim, run_id, self._sink)
        self._run_id = run_id
        before = self._claim
        self._write_claim(extend_claim(before, self._worker, run_id))
        is_first = before is None or before.runs[-1] != run_id
        return Standing(self._decision, is_first, () if before is None else before.remains)

    def has_taken(self, run_id: str) -> bool:
        """Whether this desk was taken in this run before, so that nothing of earlier runs waits for its end."""
        return self._run_id == run_id

    def decide(self, decision: Decision) -> None:
        """Write a decision down for good; raises if another worker has taken the desk since."""
        value = decision.encode()
        if len(value) > SPARK_DECISION_BYTES_MAX:
            raise WriteError(
                f"batch {decision.batch_id} of {self._sink} was written by {len(decision.transactions)} tasks, and the "
                f"decision that names their transactions would take {len(value)} bytes of the "
                f"{SPARK_DECISION_BYTES_MAX} that it may have. Write from fewer tasks: call coalesce on what is written"
            )
        self._write({self._keys.decision: value})
        self._decision = decision

    def list_remains(self, remains: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        """Note in the claim what is aborted next, and return it; raises if another worker has taken the desk since."""
        if self._claim is None:
            raise WriteError(f"remains of {self._sink} cannot be aborted by a worker that has not claimed it")
        self._write_claim(list_remains(self._claim, remains))
        return self._claim.remains

    def forget(self) -> None:
        """Delete the claim and the decision: a driver that comes back takes its last batch for undecided."""
        self._write(dict.fromkeys(self._keys, None))
        self._claim = self._decision = None

    @property
    def _is_holder(self) -> bool:
        """Whether no other worker has claimed the sink since this one did."""
        return self._claim is not None and self._claim.worker == self._worker

    def _take_id(self) -> None:
        """Take the transactional id of the sink, which aborts what another worker is about to write."""
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
        if claim != self._claim:
            self._write({self._keys.claim: claim.encode()})
            self._claim = claim

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
            self._read()
            check_run(self._claim, run_id, self._sink)
            raise self._explain("decided", error) from None
        except (ClientError, ApiError, RemoteProtocolError) as error:
            raise self._explain("decided", error) from None

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
        """End prepared transactions; those that were ended this way before stay so."""
        if not transactions:
            return
        with ThreadPoolExecutor(min(len(transactions), SPARK_ENDS_IN_FLIGHT_MAX)) as pool:
            for _ in pool.map(partial(self._end, commit=commit), transactions):
                pass

    def find_open(self, transactions: Sequence[PreparedTransaction]) -> list[PreparedTransaction]:
        """Those that have not ended; the id of one that has may be in another transaction by now."""
        found = set(self._look([name for name, *_ in transactions]))
        return [prepared for prepared in transactions if prepared in found]

    def is_search_due(self) -> bool:
        """Whether nobody has looked for remains for a while."""
        at_s = self._searched_at_s
        return at_s is None or (time.monotonic() - at_s) * 1000 >= SPARK_SEARCH_INTERVAL_MS

    def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> list[PreparedTransaction]:
        """What tasks of the sink have open beside what was decided and what has one of these ids."""
        try:
            listed = self._admin.list_transactions(states=[OPEN], pattern=re.escape(task_names(self._sink)) + ".*")
        except (ClientError, ApiError, RemoteProtocolError) as error:
            raise self._explain("cleaned up", error) from None
        known = set(names)
        found = self._look([each.transactional_id for each in listed if each.transactional_id not in known])
        self._searched_at_s = time.monotonic()
        return found if decided is None else [each for each in found if each not in decided.transactions]

    def close(self) -> None:
        """Let go of the brokers."""
        if self._producer is not None:
            self._producer.close(0)
        self._admin.close()

    def _look(self, names: Sequence[str]) -> list[PreparedTransaction]:
        """What is open under these ids."""
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
            # An id is forgotten when it has not been used for days, and never while it has something to end.
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
            raise WriteError(
                f"topic {TOPIC} has {found[TOPIC]} partitions where {SPARK_DECISION_PARTITIONS} are needed"
            )
        self._has_topic = True

    def _read(self) -> None:
        """Read on to the end, past transactions that other drivers are about to commit."""
        end = topic_io(self._settings.with_isolation("read_uncommitted")).offsets({self._partition: LATEST})
        wanted = OffsetRange(*self._partition, self._position, end[self._partition] or 0)
        if not wanted.size:
            return
        topics = topic_io(self._settings.with_isolation("read_committed"))
        for batch in topics.read(wanted, ("key", "value"), timeout_ms=_READ_TIMEOUT_MS, loss=Loss()):
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
            raise WriteError(f"topic {TOPIC} cannot be understood for {self._sink}: {error}") from None

    def _explain(self, what: str, error: Exception) -> WriteError:
        return write_error(f"a batch of {self._sink} could not be {what}: {error}", error)


def decided_sinks(settings: ClientSettings, query_id: str) -> set[str]:
    """The sinks of a query for which there is a decision."""
    topics = topic_io(settings.with_isolation("read_committed"))
    partitions = [TopicPartition(TOPIC, index) for index in range(topics.partition_counts([TOPIC]).get(TOPIC, 0))]
    found: dict[str, bool] = {}
    for (topic, index), end in topics.offsets(dict.fromkeys(partitions, LATEST)).items():
        wanted = OffsetRange(topic, index, 0, end or 0)
        if wanted.size:
            for batch in topics.read(wanted, ("key", "value"), timeout_ms=_READ_TIMEOUT_MS, loss=Loss()):
                keys, values = (column.to_pylist() for column in batch.columns)
                found |= {key.decode(): value is not None for key, value in zip(keys, values, strict=True)}
    return {sink for sink, is_decided in found.items() if is_decided and sink.startswith(sink_name(query_id, None))}


_lock = threading.Lock()
_desks: dict[tuple[int, ClientSettings, str], TransactionDesk] = {}


@contextmanager
def open_desk(settings: ClientSettings, sink: str) -> Iterator[TransactionDesk]:
    """The desk of a sink, which stays open for the next batch unless something goes wrong at it."""
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
