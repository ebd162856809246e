"""The producer for asyncio: the same core on the caller's own loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from runnel.client.commit import Committable, read_group_offsets
from runnel.client.delivery import LoopReceipt, RecordMetadata
from runnel.client.error import RequestTimeout
from runnel.client.group_offset import GroupMetadata
from runnel.client.producer_core import BytesLike, Partitioner, ProducerCore
from runnel.client.row import HeaderPairs
from runnel.client.setting import ProducerSettings, SettingValue
from runnel.client.table_send import EncodedRows, TableDelivery, TableReceipt, check_table, encode_table
from runnel.client.topic_partition import TopicPartition
from runnel.client.transaction_scope import finish, give_up
from runnel.client.transaction_state import PreparedTransaction

if TYPE_CHECKING:
    from runnel.client.aio_consumer import Consumer

T = TypeVar("T")


class Producer:
    """Writes records to topics, on one event loop.

        async with runnel.aio.Producer("localhost:9092") as producer:
            future = await producer.send("page_views", key=b"user-7", value=b"/pricing")
            print((await future).offset)

    Settings, idempotence and partitions are those of `runnel.Producer`.
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
        self._core = ProducerCore(self._settings, LoopReceipt, partitioner)
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
        """Take a record to be written, and return a future that tells where it was written.

        It waits, at most `max_block_ms`, only for a topic that it has not heard of and for memory.
        """
        core = self._core
        found = core.known_topic(topic) or await core.find_topic(topic)
        chosen, row, size_bytes = core.prepare(found, key, value, headers, partition, timestamp_ms)
        taken = core.outbox.append(topic, chosen, row, size_bytes, time.monotonic())
        if taken is None:
            taken = await self._when_room(lambda: core.outbox.append(topic, chosen, row, size_bytes, time.monotonic()))
        future: asyncio.Future[RecordMetadata] = taken[0]
        if taken[1]:
            core.sender.wake()
            await asyncio.sleep(0)  # a loop that only sends must let the batch leave
        return future

    async def send_and_wait(
        self, topic: str, value: BytesLike | None = None, key: BytesLike | None = None, **details: Any
    ) -> RecordMetadata:
        """Write one record and return where, with the arguments of `send`."""
        return await (await self.send(topic, value, key, **details))

    async def send_table(self, topic: str, table: Any) -> "asyncio.Future[TableDelivery]":
        """Write an Arrow table, one record for each row, and return a future of counts and offsets.

        As `runnel.Producer.send_table`; rows are encoded in a thread, so that the loop goes on.
        """
        core, loop = self._core, asyncio.get_running_loop()
        rows = check_table(table)
        found = core.known_topic(topic) or await core.find_topic(topic)
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
        """Send what is waiting and return when all of it is acknowledged or has failed; the futures tell which."""
        outbox = self._core.outbox
        mark = outbox.begin_flush()
        try:
            self._core.sender.wake()
            async with asyncio.timeout(timeout_s):
                while not outbox.is_complete(mark):
                    await self._wait_for_progress()
        except TimeoutError:
            raise RequestTimeout(f"not every record was acknowledged within {timeout_s:g} s") from None
        finally:
            outbox.end_flush()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most `timeout_s`, give up what is left, and close every connection.

        A transaction that is open is aborted; one that is prepared stays.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._core.is_started:
                await self._core.abandon_transaction(timeout_s)
                await self.flush(timeout_s)
        except RequestTimeout:
            pass  # what is left fails, and its futures say so
        finally:
            await self._core.close()

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        found = self._core.known_topic(topic) or await self._core.find_topic(topic)
        return list(range(len(found.partitions)))

    # --- transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Self, None]:
        """A transaction around a block: committed at its end, aborted if it raises.

            async with producer.transaction():
                await producer.send("invoices", key=order.key, value=bill(order))
                await producer.send_offsets(None, consumer)

        All that the block sends counts together or not at all. Raises `TransactionFailed` when it was aborted
        because a record could not be written, and `ProducerFenced` when another producer has the transactional
        id. A `RequestTimeout` of the commit leaves open how it ended: call `commit_transaction` again.
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
        """Take the transactional id: older producers of it are fenced, and what they left open is aborted.

        The first transaction does it, too. With `keep_prepared` a transaction that was left open is not
        aborted but returned, to be committed or aborted by this producer (KIP-939).
        """
        return await self._core.init_transactions(keep_prepared=keep_prepared)

    async def begin_transaction(self) -> None:
        """Begin a transaction, for those who do not want a `with` block."""
        await self._core.begin_transaction()

    async def commit_transaction(self) -> None:
        """Have everything written, and then count. Raises `TransactionFailed` when it has to be aborted instead."""
        await self._core.transactional().commit()

    async def abort_transaction(self) -> None:
        """Give up the transaction; those who read committed records see nothing of it."""
        await self._core.transactional().abort()

    async def send_offsets(self, offsets: Committable | None, group: "Consumer | GroupMetadata") -> None:
        """Commit how far a group has read together with the transaction, and wait until that is noted.

        Offsets are whatever `Consumer.commit` takes, for a consumer also None for everything handed out.
        Raises `CommitFailed` when the group has gone on without the consumer; the transaction is to be aborted.
        """
        found, metadata = read_group_offsets(offsets, group)
        await self._core.transactional().send_offsets(found, metadata)

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Have everything written, and leave it to others to commit or to abort (two-phase commit, KIP-939).

        What it returns is all that `Admin.complete_transaction` needs, in whatever process; None when nothing
        was sent. The producer may be closed: the transaction stays, for as long as it takes. It needs
        `transaction_two_phase_commit_enable`.
        """
        return await self._core.transactional().prepare()

    async def complete_transaction(self, prepared: PreparedTransaction) -> bool:
        """Commit the transaction that `init_transactions(keep_prepared=True)` found if it is this one, else abort it.

        Returns whether it was committed.
        """
        return await self._core.transactional().complete(prepared)

    # --- waiting

    async def _add_encoded(self, topic: str, receipt: TableReceipt, encoded: EncodedRows) -> None:
        target = TopicPartition(topic, encoded.partition)
        receipt.add()
        add = self._core.outbox.add_encoded
        try:
            await self._when_room(
                lambda: add(target, receipt, encoded.data, encoded.record_count, time.monotonic()) or None
            )
        except BaseException as error:
            receipt.fail(target, encoded.record_count, error if isinstance(error, Exception) else RuntimeError())
            raise
        self._core.sender.wake()

    async def _when_room(self, take: Callable[[], T | None]) -> T:
        """What `take` gives once there is room for it; retries are progress too, so the time is for all of them."""
        if (taken := take()) is not None:
            return taken
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


def _settle(future: "asyncio.Future[TableDelivery]", delivery: TableDelivery | None, error: Exception | None) -> None:
    if future.done():
        return
    if delivery is not None:
        future.set_result(delivery)
    elif error is not None:
        future.set_exception(error)
        future.exception()  # the same error is raised by the call itself where that has not returned
