"""Requests to a webhook, from tasks: sent, repeated, and divided to find the row that is refused."""

import http.client
import json
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import tailrace
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.webhook.reply import (
    CONFLICT,
    KEY_HEADER,
    SIGNATURE_HEADER,
    Outcome,
    idempotency_key,
    judge,
    sign,
    wait_s,
)
from tailrace.spark.error import ConnectorError, RetriableConnectorError, RowRefused
from tailrace.spark.message import shorten
from tailrace.spark.record_place import ORIGIN
from tailrace.spark.task_place import task_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tailrace.spark.connector.base import FlowPlace

VALUE = "value"
"""The column with the rows as JSON."""
_RESULT = "reason string, row_count bigint"
_ANSWER_BYTES_MAX = 65_536
_ANSWER_SHOWN_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go, and how. URL and headers may have secrets, so only the host is shown."""

    url: str = field(repr=False)
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secret: str | None = field(default=None, repr=False)
    ca: str | None = None
    batch_size: int = 1
    retries: int = 8
    timeout_s: float = 30.0

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}/…"

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection, which is not open yet."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=self.timeout_s)
        context = ssl.create_default_context(cafile=self.ca)
        return http.client.HTTPSConnection(host, parts.port, timeout=self.timeout_s, context=context)


class WebhookRow(NamedTuple):
    """A row as JSON, and the place of its record, if that is known."""

    text: str
    origin: str | None = None


class Answer(NamedTuple):
    """What a server answered: the status, the begin of the body, and the header Retry-After."""

    status: int
    text: str = ""
    retry_after: str | None = None


class Sender:
    """Sends requests one after the other over one connection, and repeats those that may succeed later."""

    def __init__(self, target: Target, sleep: Callable[[float], None] = time.sleep) -> None:
        self._target = target
        self._sleep = sleep
        self._connection: http.client.HTTPConnection | None = None

    def send(self, body: bytes, key: str) -> Answer | None:
        """Send a request until it is accepted; returns the answer that refuses its rows, if there is one.

        Raises `RetriableConnectorError` if no attempt succeeds, and `ConnectorError` if none can.
        """
        answer = Answer(0)
        for attempt in range(1, self._target.retries + 2):
            if attempt > 1:
                self._sleep(wait_s(attempt - 1, answer.retry_after))
            answer = self._try(body, key)
            outcome = judge(answer.status) if answer.status else Outcome.RETRY
            if outcome is Outcome.ACCEPTED:
                return None
            if outcome is Outcome.REFUSED:
                return answer
            if outcome is Outcome.FAILED:
                raise ConnectorError(f"{self._target}: {_shown(answer)}; check url=, method= and headers=")
        if answer.status == CONFLICT:
            return answer
        raise RetriableConnectorError(f"{self._target}: {_shown(answer)}, after {self._target.retries + 1} attempts")

    def _try(self, body: bytes, key: str) -> Answer:
        """Send a request once; an answer without a status says why there is none."""
        parts = urlsplit(self._target.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection = self._connection or self._target.connect()
        try:
            self._connection.request(self._target.method, path, body, _headers(self._target, body, key))
            reply = self._connection.getresponse()
            text = reply.read(_ANSWER_BYTES_MAX).decode(errors="replace")
            if not reply.isclosed():  # the rest of a long answer is not worth reading
                self.close()
            return Answer(reply.status, text, reply.headers.get("Retry-After"))
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ConnectorError(f"{self._target}: the certificate is refused: {error.verify_message}") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Answer(0, f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(frozen=True, slots=True)
class WebhookTask:
    """Sends the rows of a task."""

    target: Target
    rejects: Rejects

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Send Arrow batches with the column `VALUE`, and return how many rows were refused for which reason.

        They may have the column `ORIGIN`.
        """
        import pyarrow as pa
        from pyspark import TaskContext

        place, context = task_place(), TaskContext.get()
        partition = 0 if context is None else context.partitionId()

        def make_key(first_row: int, body: bytes) -> str:
            return idempotency_key(place.query_id, place.batch_id, partition, first_row, self.rejects.flow, body)

        refused: Counter[str] = Counter()
        sender = Sender(self.target)
        try:
            every = (row for batch in batches for row in _rows(batch))
            first_row = 0
            while rows := list(islice(every, self.target.batch_size)):
                wrong = list(send_rows(sender, rows, first_row, make_key, is_array=self.target.batch_size > 1))
                self.rejects.refuse(wrong)
                refused.update(error.reason.partition(":")[0] for error in wrong)  # the text may differ for each row
                first_row += len(rows)
        finally:
            sender.close()
        columns = {"reason": pa.array(list(refused), pa.string()), "row_count": pa.array(refused.values(), pa.int64())}
        yield pa.RecordBatch.from_pydict(columns)


def _rows(batch: Any) -> Iterator[WebhookRow]:
    origins = batch.column(ORIGIN).to_pylist() if ORIGIN in batch.schema.names else [None] * batch.num_rows
    return map(WebhookRow, batch.column(VALUE).to_pylist(), origins)


def send_rows(
    sender: Sender, rows: Sequence[WebhookRow], first_row: int, make_key: Callable[[int, bytes], str], *, is_array: bool
) -> Iterator[RowRefused]:
    """Send rows in one request. If it is refused, send them by halves, and yield the rows that are refused alone."""
    body = f"[{','.join(row.text for row in rows)}]".encode() if is_array else rows[0].text.encode()
    answer = sender.send(body, make_key(first_row, body))
    if answer is None:
        return
    if len(rows) == 1:
        yield RowRefused(_shown(answer), {**json.loads(rows[0].text), ORIGIN: rows[0].origin})
        return
    middle = len(rows) // 2
    yield from send_rows(sender, rows[:middle], first_row, make_key, is_array=is_array)
    yield from send_rows(sender, rows[middle:], first_row + middle, make_key, is_array=is_array)


def write_rows(rows: "DataFrame", target: Target, place: "FlowPlace") -> None:
    """Send the rows of a batch from its tasks, and count those that were refused."""
    for one in rows.mapInArrow(WebhookTask(target, place.rejects), _RESULT).collect():
        place.refused.add({one.reason: one.row_count})


def _headers(target: Target, body: bytes, key: str) -> Mapping[str, str]:
    given = {"Content-Type": "application/json", "User-Agent": f"tailrace/{tailrace.__version__}"}
    if target.secret is not None:
        given[SIGNATURE_HEADER] = sign(target.secret, body)
    names = {name.lower() for name, _ in target.headers}
    kept = {name: text for name, text in given.items() if name.lower() not in names}
    return {**kept, **dict(target.headers), KEY_HEADER: key}


def _shown(answer: Answer) -> str:
    if not answer.status:
        return f"no answer: {answer.text}"
    text = shorten(answer.text)[:_ANSWER_SHOWN_LENGTH]
    return f"the server answered {answer.status}{f': {text}' if text else ''}"
