"""Invented website activity for the demo: page views, searches and orders, some of them late or duplicated.

Pure: everything but the time follows from the seed.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

PAGE_VIEWS = "page_views"
SEARCHES = "searches"
ORDERS = "orders"
TOPICS = (PAGE_VIEWS, SEARCHES, ORDERS)

_PAGES = ("/", "/pricing", "/docs", "/docs/start", "/blog", "/cart", "/checkout", "/about", "/jobs", "/status")
_PAGE_WEIGHTS = (30, 12, 15, 10, 9, 8, 5, 4, 3, 4)
_WORDS = ("kafka", "broker", "log", "python", "stream", "spark", "offset", "topic", "replica", "consumer")
_PRODUCTS = {"notebook": 499, "mug": 1250, "shirt": 2400, "sticker": 150, "poster": 1800}  # prices in cents
_USERS = 500
_LATE_MS_MAX = 60_000
_LATE_SHARE = 0.02
_DUPLICATE_SHARE = 0.01


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Event:
    """An action of a visitor."""

    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


class Activity:
    """An endless stream of events."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0

    def events(self, now_ms: int, count: int) -> Iterator[Event]:
        """Yield the next `count` events at this time, and duplicates of some of them."""
        for _ in range(count):
            event = self._event(now_ms)
            yield event
            if self._random.random() < _DUPLICATE_SHARE:
                yield event

    def _event(self, now_ms: int) -> Event:
        chance = self._random
        self._number += 1
        topic = chance.choices(TOPICS, (80, 15, 5))[0]
        user = f"user-{min(int(chance.expovariate(1 / 60)), _USERS - 1)}"
        late_ms = chance.randrange(_LATE_MS_MAX) if chance.random() < _LATE_SHARE else 0
        body = {"event": self._number, "user": user, "at": _iso(now_ms - late_ms), **self._body(topic)}
        headers = (("event-id", str(self._number).encode()), ("source", b"web" if chance.random() < 0.7 else b"app"))
        return Event(topic, user.encode(), json.dumps(body).encode(), headers, now_ms - late_ms)

    def _body(self, topic: str) -> dict[str, object]:
        chance = self._random
        if topic == PAGE_VIEWS:
            return {"page": chance.choices(_PAGES, _PAGE_WEIGHTS)[0], "ms": int(chance.lognormvariate(4, 0.6))}
        if topic == SEARCHES:
            return {"query": " ".join(chance.sample(_WORDS, 2)), "results": chance.randrange(50)}
        product = chance.choice(list(_PRODUCTS))
        count = chance.randrange(1, 4)
        return {"product": product, "count": count, "cents": count * _PRODUCTS[product]}
