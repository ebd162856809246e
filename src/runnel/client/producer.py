"""The producer for ordinary code: `send` returns at once with a future, a thread does the rest."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from runnel.client.commit import Committable, read_group_offsets
from runnel.client.delivery import RecordMetadata, ThreadReceipt
from runnel.client.error import ClientClosed, RequestTimeout
from runnel.client.group_offset import GroupMetadata
from runnel.client.loop_thread import LoopThread
from runnel.client.metadata import Topic
from runnel.client.producer_core import BytesLike, Partitioner, ProducerCore
from runnel.client.row import HeaderPairs, Row
from runnel.client.setting import ProducerSettings, SettingValue
from runnel.client.table_send import EncodedRows, TableDelivery, TableReceipt, check_table, encode_table
from runnel.client.topic_partition import TopicPartition
from runnel.client.transaction_scope import finish, give_up
from runnel.client.transaction_state import PreparedTransaction

if TYPE_CHECKING:
    from runnel.client.consumer import Consumer


class Producer:
    """Writes records to topics; safe to use from several threads.

        with runnel.Producer("localhost:9092", compression_type="zstd") as producer:
            future = producer.send("page_views", key=b"user-7", value=b"/pricing")
        print(future.result().offset)

    Settings have Kafka's names, as keywords (`linger_ms=5`) or in `config` (`{"linger.ms": 5}`). It is
    idempotent by default: what is sent again after a lost reply is written once, and in order.
    `partitioner` is called with topic, key, value and the partitions there are, and returns one.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        partitioner: Partitioner | None = None,
        **settings: SettingValue,
    ) -> None:
        """Nothing is sent yet: a cluster that cannot be reached is an error of the first `send`."""
        self._settings = ProducerSettings(bootstrap_servers, config, settings)
        self._core = ProducerCore(self._settings, ThreadReceipt, partitioner)
        self._thread = LoopThread("runnel-producer")
        self._is_closed = False
        # Looked up once: these are on the way of every record.
        self._prepare = self._core.prepare
        self._append = self._core.outbox.append
        self._known_topic = self._core.known_topic

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: BytesLike | None = None,
        key: BytesLike | None = None,
        headers: HeaderPairs = (),
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[["Future[RecordMetadata]"], None] | None = None,
    ) -> "Future[RecordMetadata]":
        """Take a record to be written, and return a future that tells where it was written.

        It waits, at most `max_block_ms`, only for a topic that it has not heard of and for memory.
        Without `partition` the key decides, as in every Kafka client; records without a key fill
        one partition's batch after another's. `on_delivery` is called with the future, in the
        producer's own thread: it should be quick and must not wait.
        """
        found = self._known_topic(topic) or self._find_topic(topic)
        chosen, row, size_bytes = self._prepare(found, key, value, headers, partition, timestamp_ms)
        taken = self._append(topic, chosen, row, size_bytes, time.monotonic())
        if taken is None:
            taken = self._append_later(topic, chosen, row, size_bytes)
        future: Future[RecordMetadata] = taken[0]
        if on_delivery is not None:
            future.add_done_callback(on_delivery)
        if taken[1]:
            self._core.sender.wake()
        return future

    def send_table(self, topic: str, table: Any) -> "Future[TableDelivery]":
        """Write an Arrow table, one record for each row, and return a future of counts and offsets.

        The columns are `value`, and where they are there `key`, `headers`, `timestamp` and `partition`.
        Keys choose partitions as in `send`. Rows are encoded before it returns; it waits for memory as
        `send` does. Anything with Arrow's stream interface is a table: pyarrow, Polars, DuckDB, pandas.
        """
        rows = check_table(table)
        found = self._known_topic(topic) or self._find_topic(topic)
        future: Future[TableDelivery] = Future()
        future.set_running_or_notify_cancel()
        receipt = TableReceipt(topic, lambda delivery, error: _settle(future, delivery, error))
        try:
            for encoded in encode_table(self._core, found, rows):
                self._add_encoded(topic, receipt, encoded)
        except Exception as error:
            receipt.sent(error)
            raise
        receipt.sent()
        return future

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what is waiting and return when all of it is acknowledged or has failed; the futures tell which.

        Raises `RequestTimeout` when that takes longer than `timeout_s`.
        """
        if self._thread.is_current:
            raise RuntimeError("a callback runs in the producer's own thread and must not wait for it")
        outbox = self._core.outbox
        mark = outbox.begin_flush()
        try:
            self._core.sender.wake()
            if not outbox.wait_until_complete(mark, timeout_s):
                raise RequestTimeout(f"not every record was acknowledged within {timeout_s:g} s")
        finally:
            outbox.end_flush()

    def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most `timeout_s`, give up what is left, and free everything. Closing twice does nothing.

        A transaction that is open is aborted; one that is prepared stays.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._core.is_started:
                self._thread.call(self._core.abandon_transaction(timeout_s))
                self.flush(timeout_s)
        except RequestTimeout:
            pass  # what is left fails, and its futures say so
        finally:
            self._thread.call(self._core.close())
            self._thread.close()

    def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        return list(range(len((self._known_topic(topic) or self._find_topic(topic)).partitions)))

    # --- transactions

    @contextmanager
    def transaction(self) -> Generator[Self, None, None]:
        """A transaction around a block: committed at its end, aborted if it raises.

            with producer.transaction():
                producer.send("invoices", key=order.key, value=bill(order))
                producer.send_offsets(None, consumer)

        All that the block sends counts together or not at all. Raises `TransactionFailed` when it was aborted
        because a record could not be written, and `ProducerFenced` when another producer has the transactional
        id. A `RequestTimeout` of the commit leaves open how it ended: call `commit_transaction` again.
        """
        self.begin_transaction()
        transactions = self._core.transactional()
        try:
            yield self
        except BaseException as error:
            self._thread.call(give_up(transactions, error))
            raise
        self._thread.call(finish(transactions))

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id: older producers of it are fenced, and what they left open is aborted.

        The first transaction does it, too. With `keep_prepared` a transaction that was left open is not
        aborted but returned, to be committed or aborted by this producer (KIP-939).
        """
        return self._thread.call(self._core.init_transactions(keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        """Begin a transaction, for those who do not want a `with` block."""
        transactions = self._core.transactional()
        if transactions.is_initialized and not self._is_closed:
            transactions.begin_at_once()
        else:
            self._thread.call(self._core.begin_transaction())

    def commit_transaction(self) -> None:
        """Have everything written, and then count. Raises `TransactionFailed` when it has to be aborted instead."""
        self._thread.call(self._core.transactional().commit())

    def abort_transaction(self) -> None:
        """Give up the transaction; those who read committed records see nothing of it."""
        self._thread.call(self._core.transactional().abort())

    def send_offsets(self, offsets: Committable | None, group: "Consumer | GroupMetadata") -> None:
        """Commit how far a group has read together with the transaction, and wait until that is noted.

        Offsets are whatever `Consumer.commit` takes, for a consumer also None for everything handed out.
        Raises `CommitFailed` when the group has gone on without the consumer; the transaction is to be aborted.
        """
        found, metadata = read_group_offsets(offsets, group)
        self._thread.call(self._core.transactional().send_offsets(found, metadata))

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Have everything written, and leave it to others to commit or to abort (two-phase commit, KIP-939).

        What it returns is all that `Admin.complete_transaction` needs, in whatever process; None when nothing
        was sent. The producer may be closed: the transaction stays, for as long as it takes. It needs
        `transaction_two_phase_commit_enable`.
        """
        return self._thread.call(self._core.transactional().prepare())

    def complete_transaction(self, prepared: PreparedTransaction) -> bool:
        """Commit the transaction that `init_transactions(keep_prepared=True)` found if it is this one, else abort it.

        Returns whether it was committed.
        """
        return self._thread.call(self._core.transactional().complete(prepared))

    # --- the slow ways

    def _find_topic(self, name: str) -> Topic:
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if not isinstance(name, str):
            raise TypeError(f"a topic's name is text, not {type(name).__name__}")
        return self._thread.call(self._core.find_topic(name))

    def _append_later(self, topic: str, partition: int, row: Row, size_bytes: int) -> tuple[Any, bool]:
        """Wait for room as long as allowed; it may be taken by others each time there is some."""
        deadline_s = time.monotonic() + self._settings.max_block_ms / 1000
        while True:
            self._wait_for_room(size_bytes, deadline_s)
            taken = self._append(topic, partition, row, size_bytes, time.monotonic())
            if taken is not None:
                return taken

    def _add_encoded(self, topic: str, receipt: TableReceipt, encoded: EncodedRows) -> None:
        target = TopicPartition(topic, encoded.partition)
        receipt.add()
        deadline_s = time.monotonic() + self._settings.max_block_ms / 1000
        add = self._core.outbox.add_encoded
        try:
            while not add(target, receipt, encoded.data, encoded.record_count, time.monotonic()):
                self._wait_for_room(len(encoded.data), deadline_s)
        except Exception as error:
            receipt.fail(target, encoded.record_count, error)
            raise
        self._core.sender.wake()

    def _wait_for_room(self, size_bytes: int, deadline_s: float) -> None:
        left_s = deadline_s - time.monotonic()
        self._core.sender.wake()
        if left_s <= 0 or self._thread.is_current or not self._core.outbox.wait_for_room(size_bytes, left_s):
            raise self._core.no_room(self._settings.max_block_ms)


def _settle(future: "Future[TableDelivery]", delivery: TableDelivery | None, error: Exception | None) -> None:
    if delivery is not None:
        future.set_result(delivery)
    else:
        future.set_exception(error)
