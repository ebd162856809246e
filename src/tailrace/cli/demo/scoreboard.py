"""The counts of events that the demo without Spark has written and read, and their display."""

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.cli.demo.activity import ORDERS, PAGE_VIEWS, TOPICS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tailrace.client.fetch.request import Fetched
    from tailrace.client.produce.writer import Delivery

_RATE_WINDOW_S = 5.0
_EVENT_IDS_MAX = 100_000  # duplicates follow soon after, and the demo may run for days


class Rate:
    """Events a second over the last few seconds; thread-safe."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._began_s = now_s()
        self._counts: deque[tuple[float, int]] = deque()
        self._sum = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self._counts.append((self._now_s(), count))
            self._sum += count

    def per_second(self) -> float:
        now_s = self._now_s()
        with self._lock:
            while self._counts and self._counts[0][0] < now_s - _RATE_WINDOW_S:
                self._sum -= self._counts.popleft()[1]
            return self._sum / max(0.1, min(_RATE_WINDOW_S, now_s - self._began_s))


class Scoreboard:
    """Counts acknowledged and read records."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.pages: Counter[str] = Counter()
        self.order_cents = 0
        self.order_count = 0
        self.duplicate_count = 0
        self.problems: list[str] = []
        self._acknowledged: dict[tuple[str, int], int] = {}  # the offset after the last acknowledged record
        self._next: dict[tuple[str, int], int] = {}  # the offset that must be read next
        self._event_ids: dict[bytes, None] = {}  # the newest ones, oldest first
        self._rates = {(way, topic): Rate() for way in ("in", "out") for topic in TOPICS}

    def delivered(self, delivery: "Delivery") -> None:
        """Count an acknowledged or rejected batch."""
        target, count = delivery.target, delivery.record_count
        if delivery.error is not None:
            self.problems.append(f"{target}: {count} events were refused: {delivery.error}")
            return
        self.written[target.topic] += count
        self._rates["in", target.topic].add(count)
        end = delivery.base_offset + count
        self._acknowledged[target] = max(end, self._acknowledged.get(target, 0))

    def fetched(self, fetched: "Fetched") -> None:
        """Count the records read from a partition, and check that their offsets have no gap."""
        place = (fetched.topic, fetched.partition)
        count = 0
        for record in fetched.records():
            expected = self._next.get(place, 0)
            if record.offset != expected:
                self.problems.append(
                    f"{fetched.topic}-{fetched.partition}: offset {record.offset} after {expected - 1}"
                )
            self._next[place] = record.offset + 1
            self._look_at(fetched.topic, record.value or b"{}", dict(record.headers).get("event-id") or b"")
            count += 1
        self.read[fetched.topic] += count
        self._rates["out", fetched.topic].add(count)

    @property
    def lag(self) -> int:
        """How many acknowledged events have not been read back."""
        return sum(max(0, end - self._next.get(place, 0)) for place, end in self._acknowledged.items())

    def lag_of(self, topic: str) -> int:
        """Return the lag of one topic."""
        places = {place: end for place, end in self._acknowledged.items() if place[0] == topic}
        return sum(max(0, end - self._next.get(place, 0)) for place, end in places.items())

    def _look_at(self, topic: str, value: bytes, event_id: bytes) -> None:
        if event_id in self._event_ids:
            self.duplicate_count += 1
            return
        self._event_ids[event_id] = None
        if len(self._event_ids) > _EVENT_IDS_MAX:
            del self._event_ids[next(iter(self._event_ids))]
        body = json.loads(value)
        if topic == PAGE_VIEWS:
            self.pages[body["page"]] += 1
        elif topic == ORDERS:
            self.order_count += 1
            self.order_cents += body["cents"]

    # --- display

    def line(self) -> str:
        """Return the numbers as a line."""
        rates = ", ".join(
            f"{topic} {self._rate('in', topic)}/s in {self._rate('out', topic)}/s out" for topic in TOPICS
        )
        return f"{rates} | {self.summary()} | lag {self.lag}"

    def summary(self) -> str:
        """Return the totals."""
        top = ", ".join(f"{page} {count}" for page, count in self.pages.most_common(3))
        return (
            f"{self.written.total()} events written, {self.read.total()} read back, {self.duplicate_count} duplicates; "
            f"{self.order_count} orders worth {self.order_cents / 100:.2f}; top pages: {top}"
        )

    def render(self, address: str) -> "RenderableType":
        """Return the numbers as a live table."""
        from rich.console import Group
        from rich.table import Table

        topics = Table(title=f"Live website activity through a Tailrace broker on {address}", title_justify="left")
        for heading in ("topic", "in/s", "out/s", "written", "read back", "lag"):
            topics.add_column(heading, justify="left" if heading == "topic" else "right", min_width=8)
        for topic in TOPICS:
            totals = (self.written[topic], self.read[topic], self.lag_of(topic))
            rates = (self._rate("in", topic), self._rate("out", topic))
            topics.add_row(topic, *rates, *(f"{total:,}" for total in totals))
        pages = Table(title="Top pages", title_justify="left")
        pages.add_column("page", min_width=14)
        pages.add_column("views", justify="right", min_width=8)
        for page, count in self.pages.most_common(5):
            pages.add_row(page, f"{count:,}")
        orders = f"{self.order_count:,} orders worth {self.order_cents / 100:,.2f}"
        return Group(topics, pages, f"{orders} · {self.duplicate_count:,} duplicates seen", "[dim]Ctrl-C ends it[/dim]")

    def _rate(self, way: str, topic: str) -> str:
        return f"{self._rates[way, topic].per_second():,.0f}"
