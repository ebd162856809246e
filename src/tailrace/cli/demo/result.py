"""The results of the demo's pipeline, read from its result topics while it runs."""

import json
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from tailrace.client.error import ClientError
from tailrace.client.fetch.consumer import Consumer
from tailrace.protocol.errors import ApiError

if TYPE_CHECKING:
    from rich.table import Table

PAGE_COUNTS = "page_counts"
ORDER_SEARCHES = "order_searches"
RESULT_TOPICS = (PAGE_COUNTS, ORDER_SEARCHES)
_POLL_TIMEOUT_S = 0.2
_ROWS_SHOWN = 5


class Results:
    """The newest results and their counts; one thread adds them, another displays them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.window = ""
        self.pages: Counter[str] = Counter()  # of the newest window
        self.orders: deque[dict[str, Any]] = deque(maxlen=_ROWS_SHOWN)

    def add(self, topic: str, body: dict[str, Any]) -> None:
        """Add one row of a result topic."""
        with self._lock:
            self.counts[topic] += 1
            if topic == ORDER_SEARCHES:
                self.orders.append(body)
            elif body["start"] >= self.window:
                if body["start"] > self.window:
                    self.window, self.pages = body["start"], Counter()
                self.pages[body["page"]] = body["views"]

    def line(self) -> str:
        """Return the newest results in a line."""
        with self._lock:
            window, seen = self.window, self.pages.most_common(3)
        orders = f"{self.counts[ORDER_SEARCHES]:,} orders after searches"
        if not seen:
            return f"no window of page views is complete yet; {orders}"
        top = ", ".join(f"{page} {views}" for page, views in seen)
        return f"most seen from {clock(window)} on: {top}; {orders}"

    def tables(self) -> "list[Table]":
        """Return the newest results for a terminal."""
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
            address, client_id="tailrace-demo", auto_offset_reset="earliest", isolation_level="read_committed"
        )
        self._consumer.subscribe(list(RESULT_TOPICS))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tailrace-demo-results", daemon=True)

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
                is_last = (
                    self._stopping.is_set()
                )  # read before the poll, which then sees all rows written before the stop
                records = self._consumer.poll(_POLL_TIMEOUT_S)
                for record in records:
                    self.results.add(record.topic, json.loads(record.value or b"{}"))
                if is_last and not records:
                    return
        except (ApiError, ClientError):
            return  # the demo checks the results itself


def clock(text: str) -> str:
    """Return the time of the day in an ISO time."""
    return text.partition("T")[2].partition(".")[0]
