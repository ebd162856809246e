"""A broker in a thread of the test process."""

import logging
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tailrace.client.admin.core import Admin, NewTopic
from tailrace.client.cluster import Cluster
from tailrace.client.fetch.reader import Reader
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.produce.writer import Writer
from tailrace.config.broker import BrokerConfig
from tailrace.protocol.errors import ApiError
from tailrace.records.record import Record
from tailrace.testing.broker_thread import BrokerThread
from tailrace.testing.fault import Fault, Faults, read_fault

T = TypeVar("T")
Options = Mapping[str, str | int | float | bool]

_DAY_MS = 24 * 60 * 60 * 1000

log = logging.getLogger("tailrace.testing")


class Broker:
    """A real broker on 127.0.0.1 in a background thread of this process.

    Its data is in a temporary folder, which is removed at the end, unless you set a folder. Configs have Kafka's names:
    `Broker({"num.partitions": 3})`. The defaults are a broker's, with two exceptions: the first member of a group does
    not wait (`group.initial.rebalance.delay.ms` is 0), and old records are looked for once a day, not every five
    minutes (`log.retention.check.interval.ms`), so that a test may write records with any time.

    The broker can be stopped and restarted, always cleanly. To test a crash, run `tailrace start` as a child process
    and kill it.
    """

    def __init__(self, config: Options | None = None, data: Path | str | None = None) -> None:
        self._options = _texts(config)
        self._keeps_data = data is not None
        self._data = None if data is None else Path(data)
        self._faults = Faults()
        self._thread: BrokerThread | None = None
        self._config: BrokerConfig | None = None
        self._port = 0
        self._bootstrap_servers = ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except Exception:
            if error is None:
                raise
            # The error of the block matters more, and may be the cause of this one.
            log.exception("the broker did not stop cleanly")

    # --- start and stop

    def start(self) -> Self:
        """Start the broker and return when clients can connect; raises the error of a failed start."""
        if self.is_running:
            raise RuntimeError("the broker is already running")
        try:
            thread = BrokerThread(self._make_config(), self._faults.intercept)
            self._bootstrap_servers = thread.start()
        except BaseException:
            self._forget()
            raise
        self._thread = thread
        self._port = int(self._bootstrap_servers.rpartition(":")[2])
        return self

    def stop(self) -> None:
        """Stop the broker cleanly and remove its temporary folder; raises the error of a failed stop.

        Idempotent.
        """
        try:
            self._end_thread()
        finally:
            self._forget()

    def restart(self) -> None:
        """Stop and start the broker with the same data and port; clients must reconnect."""
        self._end_thread()
        self.start()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as in bootstrap.servers."""
        self._require_running()
        return self._bootstrap_servers

    @property
    def config(self) -> BrokerConfig:
        """The configuration of the broker."""
        if self._config is None:
            raise RuntimeError("the broker has not been started")
        return self._config

    @property
    def data(self) -> Path:
        """The folder with the broker's logs."""
        if self._data is None:
            raise RuntimeError("the broker is not running, and its temporary folder was removed")
        return self._data

    # --- faults

    def inject(
        self,
        api: str | int,
        *,
        error: str | int | None = None,
        delay: float = 0.0,
        drop: bool = False,
        count: int | None = 1,
    ) -> Fault:
        """Make the next `count` requests of an API fail; None means all requests until `clear_faults`.

        `api` is Kafka's name or key of the API ("PRODUCE"), `error` the name or number of an error code, `delay` the
        seconds to wait first; `drop` closes the connection without a reply. `hits` of the returned fault counts the
        requests that it has affected.
        """
        fault = read_fault(api, error, delay, drop, count)
        self._faults.add(fault)
        return fault

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    # --- helpers, which are ordinary clients and so are affected by faults

    def create_topic(self, name: str, partitions: int = 1, config: Options | None = None) -> None:
        """Create a topic; raises `ApiError` if the broker rejects it."""

        async def create(cluster: Cluster) -> None:
            outcomes = await Admin(cluster).create_topics([NewTopic(name, partitions, configs=_texts(config))])
            if isinstance(outcome := outcomes[name], ApiError):
                raise outcome

        self._call(create)

    def produce(self, topic: str, records: Iterable[bytes | tuple[bytes | None, bytes | None]]) -> None:
        """Write values, or pairs of key and value, and wait for their acknowledgement."""
        pairs = [record if isinstance(record, tuple) else (None, record) for record in records]

        async def write(cluster: Cluster) -> None:
            async with Writer(cluster, linger_ms=0) as writer:
                for key, value in pairs:
                    await writer.send(topic, key, value)

        self._call(write)

    def consume(self, topic: str, partitions: Sequence[int] | None = None) -> list[Record]:
        """Return all records of a topic, partition by partition."""

        async def read(cluster: Cluster) -> list[Record]:
            found: dict[int, list[Record]] = {}
            async with Reader(cluster, topic, partitions=partitions) as reader:
                starts, ends = await reader.find_offsets(EARLIEST), await reader.find_offsets(LATEST)
                reader.seek({partition: start for partition, start in starts.items() if start < ends[partition]})
                left = {partition for partition, start in starts.items() if start < ends[partition]}
                while left:
                    fetched = await anext(reader)
                    found.setdefault(fetched.partition, []).extend(fetched.records())
                    if fetched.next_offset >= ends[fetched.partition]:
                        left.discard(fetched.partition)
            return [record for _, records in sorted(found.items()) for record in records]

        return self._call(read)

    def _call(self, action: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
        """Run a client in the broker's event loop, so that callers need no loop."""

        async def run() -> T:
            async with Cluster(self._bootstrap_servers, client_id="tailrace-testing") as cluster:
                return await action(cluster)

        if self._thread is None:
            raise RuntimeError("the broker is not running")
        return self._thread.call(run)

    # --- the thread and the folder

    def _make_config(self) -> BrokerConfig:
        if self._data is None:
            self._data = Path(tempfile.mkdtemp(prefix="tailrace-"))
        options = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(self._data),
            "group.initial.rebalance.delay.ms": "0",  # a test has no other members to wait for
            "log.retention.check.interval.ms": str(_DAY_MS),  # a test may write records with the time of another year
            **self._options,
        }
        self._config = BrokerConfig(options)
        return self._config

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def _forget(self) -> None:
        """Discard the port, and the folder if it is temporary."""
        self._port = 0
        if not self._keeps_data and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = None

    def _require_running(self) -> None:
        if not self.is_running:
            raise RuntimeError("the broker is not running")


def _texts(options: Options | None) -> dict[str, str]:
    """Return configs as text, in Kafka's format."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (options or {}).items()
    }
