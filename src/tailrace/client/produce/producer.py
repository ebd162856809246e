"""The producer for ordinary code: `send` returns at once with a future, a thread does the rest."""

import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tailrace.client.backoff import Deadline
from tailrace.client.blocking import blocking, run_in_caller
from tailrace.client.group.committable import Committable, read_group_offsets
from tailrace.client.group.offset import GroupMetadata
from tailrace.client.loop_thread import LoopThread
from tailrace.client.produce import aio
from tailrace.client.produce.core import BytesLike, Partitioner
from tailrace.client.produce.delivery import Receipt, RecordMetadata, ThreadReceipt
from tailrace.client.produce.row import HeaderPairs
from tailrace.client.produce.table import TableDelivery, TableReceipt, check_table, encode_table
from tailrace.client.setting import SettingValue
from tailrace.client.transaction.scope import finish, give_up

if TYPE_CHECKING:
    from tailrace.client.fetch.consumer import Consumer

T = TypeVar("T")


class Producer:
    """Writes records to topics; safe to use from several threads.

        with tailrace.Producer("localhost:9092", compression_type="zstd") as producer:
            future = producer.send("page_views", key=b"user-7", value=b"/pricing")
        print(future.result().offset)

    Settings have Kafka's names, as keywords (`linger_ms=5`) or in `config` (`{"linger.ms": 5}`). It is
    idempotent by default: a retry after a lost reply writes each record once and in order.
    `partitioner` is called with topic, key, value and the numbers of partitions, and returns one of them.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        partitioner: Partitioner | None = None,
        **settings: SettingValue,
    ) -> None:
        """Send nothing yet: if the cluster cannot be reached, the first `send` raises the error."""
        self._aio = _BlockingProducer(bootstrap_servers, config=config, partitioner=partitioner, **settings)
        self._core = self._aio._core
        self._thread = self._aio.thread
        # Looked up once: `send` uses them for every record.
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
        """Take a record, and return a future for the offset at which it is written.

        It waits only for the metadata of a new topic and for memory, at most `max_block_ms`. Without
        `partition` the hash of the key chooses one, as in every Kafka client; records without a key fill a
        batch of one partition and then one of another. `on_delivery` is called with the future, in the
        producer's own thread: it should be quick and must not wait.
        """
        found = self._known_topic(topic) or self._run(self._aio._find_topic(topic))
        chosen, row, size_bytes = self._prepare(found, key, value, headers, partition, timestamp_ms)
        taken = self._append(topic, chosen, row, size_bytes, time.monotonic())
        if taken is None:
            taken = self._run(self._aio._append_later(topic, chosen, row, size_bytes))
        future: Future[RecordMetadata] = taken[0]
        if on_delivery is not None:
            future.add_done_callback(on_delivery)
        if taken[1]:
            self._core.sender.wake()
        return future

    def send_table(self, topic: str, table: Any) -> "Future[TableDelivery]":
        """Write an Arrow table, one record for each row, and return a future of counts and offsets.

        The columns are `value` and, optionally, `key`, `headers`, `timestamp` and `partition`.
        Keys choose partitions as in `send`. Rows are encoded before it returns; it waits for memory as
        `send` does. Anything with Arrow's stream interface is a table: pyarrow, Polars, DuckDB, pandas.
        """
        rows = check_table(table)
        found = self._run(self._aio._find_topic(topic))
        future: Future[TableDelivery] = Future()
        future.set_running_or_notify_cancel()
        receipt = TableReceipt(topic, lambda delivery, error: _settle(future, delivery, error))
        try:
            for encoded in encode_table(self._core, found, rows):
                self._run(self._aio._add_encoded(topic, receipt, encoded))
        except Exception as error:
            receipt.sent(error)
            raise
        receipt.sent()
        return future

    flush = blocking(aio.Producer.flush)
    close = blocking(aio.Producer.close)
    partitions_for = blocking(aio.Producer.partitions_for)

    # --- transactions

    @contextmanager
    def transaction(self) -> Generator[Self, None, None]:
        """Run a block as a transaction, which is committed at its end, or aborted if it raises.

            with producer.transaction():
                producer.send("invoices", key=order.key, value=bill(order))
                producer.send_offsets(None, consumer)

        The records and the group's offsets are committed together or not at all. Raises `TransactionFailed` if it was
        aborted because a record could not be written, and `ProducerFenced` if another producer has taken the
        transactional id. After a `RequestTimeout` of the commit its outcome is open: call `commit_transaction` again.
        """
        self.begin_transaction()
        transactions = self._core.transactional()
        try:
            yield self
        except BaseException as error:
            self._thread.call(give_up(transactions, error))
            raise
        self._thread.call(finish(transactions))

    def begin_transaction(self) -> None:
        """Begin a transaction without a `with` block."""
        transactions = self._core.transactional()
        if transactions.is_initialized and not self._aio._is_closed:
            transactions.begin_at_once()
        else:
            self._run(self._aio.begin_transaction())

    init_transactions = blocking(aio.Producer.init_transactions)
    commit_transaction = blocking(aio.Producer.commit_transaction)
    abort_transaction = blocking(aio.Producer.abort_transaction)
    prepare_transaction = blocking(aio.Producer.prepare_transaction)
    complete_transaction = blocking(aio.Producer.complete_transaction)

    def send_offsets(self, offsets: Committable | None, group: "Consumer | GroupMetadata") -> None:
        """Add the offsets of a group to the transaction, and wait until its coordinator has them.

        Offsets are what `Consumer.commit` takes; for a consumer, None means everything that it has returned.
        Raises `CommitFailed` if the group has excluded the consumer; the transaction must then be aborted.
        """
        self._run(self._aio._send_offsets(*read_group_offsets(offsets, group)))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return run_in_caller(work)


class _BlockingProducer(aio.Producer):
    """The asyncio producer with waits that block the caller, so that its coroutines never suspend."""

    def __init__(self, bootstrap_servers: str | Sequence[str] | None, **settings: Any) -> None:
        super().__init__(bootstrap_servers, **settings)
        self.thread = LoopThread("tailrace-producer")

    def _new_receipt(self) -> Receipt:
        return ThreadReceipt()

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return self.thread.call(work)

    async def _wait_until_complete(self, mark: int, timeout_s: float | None) -> bool:
        if self.thread.is_current:
            raise RuntimeError("a callback runs in the producer's own thread and must not wait for it")
        return self._core.outbox.wait_until_complete(mark, timeout_s)

    async def _when_room(self, size_bytes: int, take: Callable[[], T | None]) -> T:
        deadline = Deadline(self._settings.max_block_ms)
        while True:
            self._core.sender.wake()
            has_room = not deadline.is_over and not self.thread.is_current
            if not has_room or not self._core.outbox.wait_for_room(size_bytes, deadline.left_s):
                raise self._core.no_room(self._settings.max_block_ms)
            if (taken := take()) is not None:  # other threads may have used the room
                return taken

    async def _close_core(self) -> None:
        self.thread.call(self._core.close())
        self.thread.close()


def _settle(future: "Future[TableDelivery]", delivery: TableDelivery | None, error: Exception | None) -> None:
    if delivery is not None:
        future.set_result(delivery)
    else:
        future.set_exception(error)
