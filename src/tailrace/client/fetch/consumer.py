"""The consumer for ordinary code: a thread fetches ahead, and the asyncio consumer's coroutines run in the caller's."""

from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tailrace.client.blocking import blocking, iterate_in_caller, run_in_caller
from tailrace.client.fetch import aio
from tailrace.client.fetch.core import Target
from tailrace.client.fetch.face import ConsumerFace
from tailrace.client.fetch.queue import Chunk
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.group.committable import Committable
from tailrace.client.loop_thread import LoopThread
from tailrace.client.setting import SettingValue

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Consumer(ConsumerFace):
    """Reads records from topics, one by one or as Arrow record batches; for one thread at a time.

        for record in tailrace.Consumer("localhost:9092").subscribe("page_views"):
            print(record.key, record.value)
        for record in tailrace.Consumer("localhost:9092", group_id="ml").subscribe("page_views"):
            print(record.key, record.value)
        for batch in tailrace.Consumer("localhost:9092").assign([("page_views", 0, "earliest")]).batches():
            print(batch.num_rows)

    Settings have Kafka's names, as keywords (`isolation_level="read_committed"`) or in `config`. In a group,
    `subscribe` shares the partitions with the other members and continues at the group's committed offsets; without
    one it reads every partition, starting where `auto_offset_reset` says. The next records are fetched while the
    caller works on these.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        **settings: SettingValue,
    ) -> None:
        """Send nothing yet: if the cluster cannot be reached, the first read raises the error."""
        self._aio = _BlockingConsumer(bootstrap_servers, config=config, **settings)
        self._thread = self._aio.thread
        super().__init__(self._aio._core, self._aio._records)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._aio.__aexit__(kind, error, trace))

    unsubscribe = blocking(aio.Consumer.unsubscribe)
    position = blocking(aio.Consumer.position)

    # --- reading

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        record = self._next_ready()
        return self._run(self._aio.__anext__()) if record is None else record

    poll = blocking(aio.Consumer.poll)

    def batches(
        self, columns: Sequence[str] | None = None, *, timeout_s: float | None = None
    ) -> Generator["pa.RecordBatch", None, None]:
        """Iterate over `pyarrow.RecordBatch`, each of one partition, without an object for each record.

        `columns` chooses among key, value, topic, partition, offset, timestamp, timestampType and
        headers; columns that are not chosen cost nothing. The iteration ends if nothing arrives for `timeout_s`.
        """
        return iterate_in_caller(self._aio.batches(columns, timeout_s=timeout_s))

    # --- offsets

    commit = blocking(aio.Consumer.commit)

    def commit_async(self, what: Committable | None = None) -> Future[None]:
        """Commit without waiting, and return a future for the outcome. Commits are stored in the order of the calls."""
        self._run(self._aio._start())
        return self._thread.begin(self._core.joined_group().commit(self._core.offsets_to_commit(what)))

    committed = blocking(aio.Consumer.committed)
    partitions_for = blocking(aio.Consumer.partitions_for)
    beginning_offsets = blocking(aio.Consumer.beginning_offsets)
    end_offsets = blocking(aio.Consumer.end_offsets)
    offsets_for_times = blocking(aio.Consumer.offsets_for_times)
    close = blocking(aio.Consumer.close)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return run_in_caller(work)


class _BlockingConsumer(aio.Consumer):
    """The asyncio consumer with waits that block the caller, so that its coroutines never suspend."""

    def __init__(self, bootstrap_servers: str | Sequence[str] | None, **settings: Any) -> None:
        super().__init__(bootstrap_servers, **settings)
        self.thread = LoopThread("tailrace-consumer")

    def _on_arrival(self) -> None:
        """Do nothing: the fetcher's own condition wakes threads."""

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return self.thread.call(work)

    async def _wait_for_chunk(self, timeout_s: float | None) -> Chunk | None:
        return self._fetcher.wait(timeout_s)

    async def _wait_for_place(self, target: Target, timeout_s: float) -> bool:
        return self._fetcher.wait_for_place(target, timeout_s)

    async def _decode(self, batches: Iterator["pa.RecordBatch"], chunk: Chunk) -> "pa.RecordBatch | None":
        return next(batches, None)

    async def _close_core(self) -> None:
        self.thread.call(self._core.close())
        self.thread.close()
