"""The producer for asyncio: the same core on the caller's own loop."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from runnel.client.delivery import LoopReceipt, RecordMetadata
from runnel.client.error import RequestTimeout
from runnel.client.producer_core import BytesLike, Partitioner, ProducerCore
from runnel.client.row import HeaderPairs
from runnel.client.setting import ProducerSettings, SettingValue
from runnel.client.table_send import EncodedRows, TableDelivery, TableReceipt, check_table, encode_table
from runnel.client.topic_partition import TopicPartition

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
        self._core.outbox.on_progress = self._on_progress
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
        """Flush for at most `timeout_s`, give up what is left, and close every connection."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._core.is_started:
                await self.flush(timeout_s)
        except RequestTimeout:
            pass  # what is left fails, and its futures say so
        finally:
            await self._core.close()

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        found = self._core.known_topic(topic) or await self._core.find_topic(topic)
        return list(range(len(found.partitions)))

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
