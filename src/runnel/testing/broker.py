"""A broker in a thread of the process that tests."""

import logging
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from runnel.client.admin import Admin, NewTopic
from runnel.client.cluster import Cluster
from runnel.client.offset import EARLIEST, LATEST
from runnel.client.reader import Reader
from runnel.client.writer import Writer
from runnel.config.broker import BrokerConfig
from runnel.protocol.errors import ApiError
from runnel.records.record import Record
from runnel.testing.broker_thread import BrokerThread
from runnel.testing.fault import Fault, Faults, read_fault

T = TypeVar("T")
Options = Mapping[str, str | int | float | bool]

log = logging.getLogger("runnel.testing")


class Broker:
    """A real broker on 127.0.0.1 in a background thread of this process.

    Its data is in a temporary folder that goes away with it, unless you name one. Options have
    Kafka's names: `Broker({"num.partitions": 3})`. Their defaults are a broker's, but for
    `group.initial.rebalance.delay.ms`, which is 0, so that the first member of a group need not wait.

    It can be stopped and restarted, always cleanly. What a kill -9 leaves behind cannot be had
    inside one process: start `runnel start` as a child process and kill that.
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
            # What went wrong in the block is what its user wants to see, and may be why this went wrong, too.
            log.exception("the broker did not stop cleanly")

    # --- the broker's life

    def start(self) -> Self:
        """Start the broker and return once clients can connect; raises what kept it from starting."""
        if self.is_running:
            raise RuntimeError("the broker is running already")
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
        """Stop the broker cleanly and remove its temporary folder; raises what went wrong on the way.

        Stopping a stopped broker does nothing.
        """
        try:
            self._end_thread()
        finally:
            self._forget()

    def restart(self) -> None:
        """Stop cleanly and start again with the same data on the same port; clients have to reconnect."""
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
        """The configuration that the broker was started with."""
        if self._config is None:
            raise RuntimeError("the broker has not been started")
        return self._config

    @property
    def data(self) -> Path:
        """The folder with the broker's logs."""
        if self._data is None:
            raise RuntimeError("the broker is not running, and its temporary folder is gone")
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
        """Have the next `count` requests of an API go wrong; None means all until `clear_faults`.

        `api` is Kafka's name or key of the API ("PRODUCE"), `error` the name or number of an error
        code, `delay` seconds to wait first, `drop` closes the connection without a reply. The fault
        that is returned counts in `hits` how many requests have met it.
        """
        fault = read_fault(api, error, delay, drop, count)
        self._faults.add(fault)
        return fault

    def clear_faults(self) -> None:
        """Have everything go right again."""
        self._faults.clear()

    # --- helpers, which talk to the broker as any client does and so meet its faults

    def create_topic(self, name: str, partitions: int = 1, config: Options | None = None) -> None:
        """Create a topic; raises `ApiError` where the broker refuses."""

        async def create(cluster: Cluster) -> None:
            outcomes = await Admin(cluster).create_topics([NewTopic(name, partitions, configs=_texts(config))])
            if isinstance(outcome := outcomes[name], ApiError):
                raise outcome

        self._call(create)

    def produce(self, topic: str, records: Iterable[bytes | tuple[bytes | None, bytes | None]]) -> None:
        """Write values, or pairs of key and value, and return when they are acknowledged."""
        pairs = [record if isinstance(record, tuple) else (None, record) for record in records]

        async def write(cluster: Cluster) -> None:
            async with Writer(cluster, linger_ms=0) as writer:
                for key, value in pairs:
                    await writer.send(topic, key, value)

        self._call(write)

    def consume(self, topic: str, partitions: Sequence[int] | None = None) -> list[Record]:
        """Every record that a topic has now, partition after partition."""

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
        """Run a client in the broker's own loop, so that callers need none."""

        async def run() -> T:
            async with Cluster(self._bootstrap_servers, client_id="runnel-testing") as cluster:
                return await action(cluster)

        if self._thread is None:
            raise RuntimeError("the broker is not running")
        return self._thread.call(run)

    # --- the thread and the folder

    def _make_config(self) -> BrokerConfig:
        if self._data is None:
            self._data = Path(tempfile.mkdtemp(prefix="runnel-"))
        options = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(self._data),
            "group.initial.rebalance.delay.ms": "0",  # a test has no fleet of members to wait for
            **self._options,
        }
        self._config = BrokerConfig(options)
        return self._config

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def _forget(self) -> None:
        """Forget the port, and the folder if it is a temporary one."""
        self._port = 0
        if not self._keeps_data and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = None

    def _require_running(self) -> None:
        if not self.is_running:
            raise RuntimeError("the broker is not running")


def _texts(options: Options | None) -> dict[str, str]:
    """Options as Kafka writes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (options or {}).items()
    }
