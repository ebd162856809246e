"""Numbers that are written to a topic, and what a reader finds in the topics of the flows."""

from __future__ import annotations

import threading

from tests.faults.spark_kill_flow import ROUND, TICK

import tailrace

SOURCE = "numbers"
PARTITION_COUNT = 2
KEY_COUNT = 5
RECORDS_A_SECOND = 100
FLUSH_SECONDS = 4 * 3600  # how far ahead the last records are, so that every window before them ends
TICK_S = 1.0
CLOSE_TIMEOUT_S = 10.0


class Feed(threading.Thread):
    """Writes numbers until it is told to end, and then some that end all windows."""

    def __init__(self, address: str) -> None:
        super().__init__(name="feed", daemon=True)
        self.count = 0
        self._address = address
        self._ending = threading.Event()
        self._complete = threading.Event()
        self._closing = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            with tailrace.Producer(self._address, linger_ms=20, delivery_timeout_ms=600_000) as producer:
                self._write(producer)
        except BaseException as error:
            self._failure = error
            self._complete.set()

    def _write(self, producer: tailrace.Producer) -> None:
        while not self._ending.wait(0.05) or self.count % ROUND:
            for _ in range(RECORDS_A_SECOND // 20):
                self._send(producer, self.count, b"%d" % (self.count % KEY_COUNT))
                self.count += 1
        producer.flush()  # or what one partition still waits for would come behind the end of its window
        self._complete.set()
        # What killed tasks left open is ended with a batch, and a query without records has none. These all belong to
        # one window, which never ends.
        while not self._closing.wait(TICK_S):
            for number in range(PARTITION_COUNT):
                self._send(producer, self.count + FLUSH_SECONDS + number, TICK.encode())

    def _send(self, producer: tailrace.Producer, number: int, key: bytes) -> None:
        producer.send(SOURCE, b"%d" % number, key, partition=number % PARTITION_COUNT)

    def end(self) -> int:
        """Write no more numbers than fill the windows; how many there are."""
        self._ending.set()
        self._complete.wait()
        self.check()
        return self.count

    def check(self) -> None:
        """Raise what went wrong, if anything."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Write nothing any more. Where there are no brokers it does not come to its end, and nobody waits for that."""
        self._ending.set()
        self._closing.set()
        if self.ident is not None:
            self.join(CLOSE_TIMEOUT_S)


def output(address: str, sink: str) -> list[str]:
    """What a reader of committed records finds."""
    table = tailrace.read_table(address, sink, columns=["value"], isolation_level="read_committed")
    return [(value or b"").decode() for value in table.column("value").to_pylist()]
