"""What the demo's pipeline has found out so far: its result topics, read while they are written."""

import json
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from runnel.client.consumer import Consumer
from runnel.client.error import ClientError
from runnel.protocol.errors import ApiError

if TYPE_CHECKING:
    from rich.table import Table

PAGE_COUNTS = "page_counts"
ORDER_SEARCHES = "order_searches"
RESULT_TOPICS = (PAGE_COUNTS, ORDER_SEARCHES)
_POLL_TIMEOUT_S = 0.2
_ROWS_SHOWN = 5


class Results:
    """The newest results, and how many there were; read in one thread and shown in another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.window = ""
        self.pages: Counter[str] = Counter()  # of the newest window
        self.orders: deque[dict[str, Any]] = deque(maxlen=_ROWS_SHOWN)

    def add(self, topic: str, body: dict[str, Any]) -> None:
        """Take in one row of a result topic."""
        with self._lock:
            self.counts[topic] += 1
            if topic == ORDER_SEARCHES:
                self.orders.append(body)
            elif body["start"] >= self.window:
                if body["start"] > self.window:
                    self.window, self.pages = body["start"], Counter()
                self.pages[body["page"]] = body["views"]

    def line(self) -> str:
        """The newest results in a line."""
        with self._lock:
            window, seen = self.window, self.pages.most_common(3)
        orders = f"{self.counts[ORDER_SEARCHES]:,} orders after searches"
        if not seen:
            return f"no window of page views is complete yet; {orders}"
        top = ", ".join(f"{page} {views}" for page, views in seen)
        return f"most seen from {clock(window)} on: {top}; {orders}"

    def tables(self) -> "list[Table]":
        """The newest results for a terminal."""
        from rich.table import Table

        with self._lock:
            window, seen, found = self.window, self.pages.most_common(_ROWS_SHOWN), list(self.orders)
        pages = Table(title=f"Most seen pages {clock(window)}".rstrip(), title_justify="left")
        pages.add_column("page", min_width=14)
        pages.add_column("views", justify="right", min_width=8)
        for page, views in seen:
            pages.add_row(page, f"{views:,}")
        orders = Table(title="Orders and what was searched before", title_justify="left")
        for heading in ("at", "user", "product", "searched for"):
            orders.add_column(heading, min_width=8)
        for order in found:
            orders.add_row(clock(order["ordered_at"]), order["user"], order["product"], order["query"])
        return [pages, orders]


class ResultReader:
    """Reads the result topics in a thread while the block runs."""

    def __init__(self, address: str) -> None:
        self.results = Results()
        self._consumer = Consumer(
            address, client_id="runnel-demo", auto_offset_reset="earliest", isolation_level="read_committed"
        )
        self._consumer.subscribe(list(RESULT_TOPICS))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="runnel-demo-results", daemon=True)

    def __enter__(self) -> Results:
        self._thread.start()
        return self.results

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        try:
            while True:
                is_last = self._stopping.is_set()  # asked first: everything was written before it was set
                records = self._consumer.poll(_POLL_TIMEOUT_S)
                for record in records:
                    self.results.add(record.topic, json.loads(record.value or b"{}"))
                if is_last and not records:
                    return
        except (ApiError, ClientError):
            return  # the demo checks what was written by itself


def clock(text: str) -> str:
    """The time of the day in an ISO time."""
    return text.partition("T")[2].partition(".")[0]
