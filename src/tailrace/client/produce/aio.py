"""The producer for asyncio, on the caller's own event loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tailrace.client.error import ClientClosed, RequestTimeout
from tailrace.client.group.committable import Committable, read_group_offsets
from tailrace.client.group.offset import GroupMetadata, OffsetAndMetadata
from tailrace.client.metadata import Topic
from tailrace.client.produce.core import BytesLike, Partitioner, ProducerCore
from tailrace.client.produce.delivery import LoopReceipt, Receipt, RecordMetadata
from tailrace.client.produce.row import HeaderPairs, Row
from tailrace.client.produce.table import EncodedRows, TableDelivery, TableReceipt, check_table, encode_table
from tailrace.client.setting import ProducerSettings, SettingValue
from tailrace.client.topic_partition import TopicPartition
from tailrace.client.transaction.scope import finish, give_up
from tailrace.client.transaction.state import PreparedTransaction

if TYPE_CHECKING:
    from tailrace.client.fetch.aio import Consumer

T = TypeVar("T")


class Producer:
    """Writes records to topics, on one event loop.

        async with tailrace.aio.Producer("localhost:9092") as producer:
            future = await producer.send("page_views", key=b"user-7", value=b"/pricing")
            print((await future).offset)

    Settings, idempotence and partitions are those of `tailrace.Producer`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        partitioner: Partitioner | None = None,
        **settings: SettingValue,
    ) -> None:
        self._settings = ProducerSettings(bootstrap_servers, config, settings)
        self._core = ProducerCore(self._settings, self._new_receipt, partitioner)
        self._core.outbox.on_progress(self._on_progress)
        self._progress: dict[asyncio.Future[None], None] = {}
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self._core.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: BytesLike | None = None,
        key: BytesLike | None = None,
        headers: HeaderPairs = (),
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Take a record, and return a future for the offset at which it is written.

        It waits only for the metadata of a new topic and for memory, at most `max_block_ms`.
        """
        core = self._core
        found = core.known_topic(topic) or await self._find_topic(topic)
        chosen, row, size_bytes = core.prepare(found, key, value, headers, partition, timestamp_ms)
        taken = core.outbox.append(topic, chosen, row, size_bytes, time.monotonic())
        if taken is None:
            taken = await self._append_later(topic, chosen, row, size_bytes)
        future: asyncio.Future[RecordMetadata] = taken[0]
        if taken[1]:
            core.sender.wake()
            await asyncio.sleep(0)  # a loop that only sends must give the sender its turn
        return future

    async def send_and_wait(
        self, topic: str, value: BytesLike | None = None, key: BytesLike | None = None, **details: Any
    ) -> RecordMetadata:
        """Write one record, with the arguments of `send`, and return its partition and offset."""
        return await (await self.send(topic, value, key, **details))

    async def send_table(self, topic: str, table: Any) -> "asyncio.Future[TableDelivery]":
        """Write an Arrow table, one record for each row, and return a future of counts and offsets.

        It takes what `tailrace.Producer.send_table` takes, and encodes rows in a thread.
        """
        core, loop = self._core, asyncio.get_running_loop()
        rows = check_table(table)
        found = await self._find_topic(topic)
        future: asyncio.Future[TableDelivery] = loop.create_future()
        receipt = TableReceipt(topic, lambda delivery, error: _settle(future, delivery, error))
        batches = encode_table(core, found, rows)
        try:
            while (encoded := await loop.run_in_executor(None, next, batches, None)) is not None:
                await self._add_encoded(topic, receipt, encoded)
        except BaseException as error:
            receipt.sent(error if isinstance(error, Exception) else RuntimeError("sending the table was cancelled"))
            raise
        receipt.sent()
        return future

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send all records that wait, and return when each is acknowledged or has failed, as its future says.

        Raises `RequestTimeout` if that takes longer than `timeout_s`.
        """
        outbox = self._core.outbox
        mark = outbox.begin_flush()
        try:
            self._core.sender.wake()
            if not await self._wait_until_complete(mark, timeout_s):
                raise RequestTimeout(f"not every record was acknowledged within {timeout_s:g} s")
        finally:
            outbox.end_flush()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most `timeout_s`, drop what is left, and close every connection. Closing twice does nothing.

        An open transaction is aborted; a prepared one stays.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._core.is_started:
                await self._on_loop(self._core.abandon_transaction(timeout_s))
                await self.flush(timeout_s)
        except RequestTimeout:
            pass  # the futures of the records that are left say so
        finally:
            await self._close_core()

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions."""
        return list(range(len((await self._find_topic(topic)).partitions)))

    # --- transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Self, None]:
        """Run a block as a transaction, which is committed at its end, or aborted if it raises.

            async with producer.transaction():
                await producer.send("invoices", key=order.key, value=bill(order))
                await producer.send_offsets(None, consumer)

        The records and the group's offsets are committed together or not at all. Raises `TransactionFailed` if it was
        aborted because a record could not be written, and `ProducerFenced` if another producer has taken the
        transactional id. After a `RequestTimeout` of the commit its outcome is open: call `commit_transaction` again.
        """
        await self.begin_transaction()
        transactions = self._core.transactional()
        try:
            yield self
        except BaseException as error:
            await give_up(transactions, error)
            raise
        await finish(transactions)

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id: its older producers are fenced, and their open transaction is aborted.

        The first transaction does this too. With `keep_prepared` an open transaction is not aborted but
        returned, and this producer commits or aborts it (KIP-939).
        """
        return await self._on_loop(self._core.init_transactions(keep_prepared=keep_prepared))

    async def begin_transaction(self) -> None:
        """Begin a transaction without a `with` block."""
        await self._on_loop(self._core.begin_transaction())

    async def commit_transaction(self) -> None:
        """Write all records and commit the transaction. Raises `TransactionFailed` if it must be aborted instead."""
        await self._on_loop(self._core.transactional().commit())

    async def abort_transaction(self) -> None:
        """Abort the transaction; consumers with `read_committed` see none of its records."""
        await self._on_loop(self._core.transactional().abort())

    async def send_offsets(self, offsets: Committable | None, group: "Consumer | GroupMetadata") -> None:
        """Add the offsets of a group to the transaction, and wait until its coordinator has them.

        Offsets are what `Consumer.commit` takes; for a consumer, None means everything that it has returned.
        Raises `CommitFailed` if the group has excluded the consumer; the transaction must then be aborted.
        """
        await self._send_offsets(*read_group_offsets(offsets, group))

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Write all records, and prepare the transaction to be committed or aborted later (two-phase commit, KIP-939).

        The result is what `Admin.complete_transaction` needs, in any process; None if nothing was sent. The
        transaction stays prepared without a timeout, also when the producer is closed. It needs
        `transaction_two_phase_commit_enable`.
        """
        return await self._on_loop(self._core.transactional().prepare())

    async def complete_transaction(self, prepared: PreparedTransaction) -> bool:
        """Commit the transaction that `init_transactions(keep_prepared=True)` found if it is this one, else abort it.

        Returns whether it was committed.
        """
        return await self._on_loop(self._core.transactional().complete(prepared))

    # --- waits, which the synchronous producer replaces by some that block

    def _new_receipt(self) -> Receipt:
        return LoopReceipt()

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the producer's event loop."""
        return await work

    async def _wait_until_complete(self, mark: int, timeout_s: float | None) -> bool:
        """Wait until all batches up to a mark have an outcome; False after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._core.outbox.is_complete(mark):
                    await self._wait_for_progress()
                return True
        except TimeoutError:
            return False

    async def _when_room(self, size_bytes: int, take: Callable[[], T | None]) -> T:
        """Return what `take` gives once the outbox has room; raises `BufferFull` after `max_block_ms`."""
        outbox = self._core.outbox
        outbox.begin_wait()
        try:
            self._core.sender.wake()
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                while (taken := take()) is None:
                    await self._wait_for_progress()
                return taken
        except TimeoutError:
            raise self._core.no_room(self._settings.max_block_ms) from None
        finally:
            outbox.end_wait()

    async def _close_core(self) -> None:
        await self._core.close()

    async def _wait_for_progress(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._progress[waiter] = None
        try:
            await waiter
        finally:
            self._progress.pop(waiter, None)

    def _on_progress(self) -> None:
        for waiter in self._progress:
            if not waiter.done():
                waiter.set_result(None)

    # --- inside

    async def _send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], metadata: GroupMetadata) -> None:
        await self._on_loop(self._core.transactional().send_offsets(offsets, metadata))

    async def _find_topic(self, name: str) -> Topic:
        found = self._core.known_topic(name)
        if found is not None:
            return found
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if not isinstance(name, str):
            raise TypeError(f"the name of a topic must be str, not {type(name).__name__}")
        return await self._on_loop(self._core.find_topic(name))

    async def _append_later(self, topic: str, partition: int, row: Row, size_bytes: int) -> tuple[Any, bool]:
        append = self._core.outbox.append
        return await self._when_room(size_bytes, lambda: append(topic, partition, row, size_bytes, time.monotonic()))

    async def _add_encoded(self, topic: str, receipt: TableReceipt, encoded: EncodedRows) -> None:
        target = TopicPartition(topic, encoded.partition)
        receipt.add()
        add = self._core.outbox.add_encoded

        def take() -> bool | None:
            return add(target, receipt, encoded.data, encoded.record_count, time.monotonic()) or None

        try:
            if take() is None:
                await self._when_room(len(encoded.data), take)
        except BaseException as error:
            receipt.fail(target, encoded.record_count, error if isinstance(error, Exception) else RuntimeError())
            raise
        self._core.sender.wake()


def _settle(future: "asyncio.Future[TableDelivery]", delivery: TableDelivery | None, error: Exception | None) -> None:
    if future.done():
        return
    if delivery is not None:
        future.set_result(delivery)
    elif error is not None:
        future.set_exception(error)
        future.exception()  # if the call has not returned yet, it raises the same error
