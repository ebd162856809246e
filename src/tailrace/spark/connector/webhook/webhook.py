"""Webhooks as sources and sinks of flows."""

import socket
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit, urlunsplit

from tailrace.base.limits import WEBHOOK_BODY_BYTES_MAX
from tailrace.spark.connector.argument import check_columns
from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.connector.topic.topic import topic as topic_source
from tailrace.spark.connector.webhook.request import Route
from tailrace.spark.connector.webhook.sender import VALUE, Target
from tailrace.spark.error import PipelineError
from tailrace.spark.record_place import split_origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METHODS = ("POST", "PUT", "PATCH")
_JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}  # Spark's default stops at milliseconds


@dataclass(frozen=True, slots=True)
class WebhookSource(Source):
    """Requests that come in, by way of a topic; created by `webhook`."""

    address: tuple[str, int]
    route: Route
    topic: Topic
    partitions: int | None = None

    def __str__(self) -> str:
        return f"webhook at {self.address[0]}:{self.address[1]}{self.route.path}"

    def check_source(self) -> None:
        self.topic.check_source()

    def connect_source(self, place: FlowPlace) -> None:
        self.topic.connect_source(place)

    def read(self, start: FlowStart) -> "DataFrame":
        start.before_start(lambda: self._open(start.place))
        return self.topic.read(start)

    def _open(self, place: FlowPlace) -> None:
        from tailrace.spark.connector.webhook.intake import open_intake, require_topic

        require_topic(place.client, self.route.topic, self.partitions)
        open_intake(self.address, self.route, place.client, place.flow)

    def stop_source(self, place: FlowPlace) -> None:
        from tailrace.spark.connector.webhook.intake import close_intake

        close_intake(self.address, place.flow)

    def origin_options(self, place: FlowPlace) -> dict[str, str]:
        return self.topic.origin_options(place)

    def missing(self, place: FlowPlace) -> tuple[str, ...]:
        return self.topic.missing(place)

    def sample(self, start: FlowStart) -> "DataFrame":
        return self.topic.sample(start)


@dataclass(frozen=True, slots=True)
class WebhookSink(Sink):
    """Requests that are sent; created by `webhook`."""

    modes: ClassVar[tuple[str, ...]] = ("append", "update", "complete")
    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE)
    takes_origin: ClassVar[bool] = True

    target: Target

    def __str__(self) -> str:
        return f"webhook {self.target}"

    def connect_sink(self, place: FlowPlace) -> None:
        connection = self.target.connect()
        try:
            with socket.create_connection((connection.host, connection.port), self.target.timeout_s):
                pass
        except OSError as error:
            raise PipelineError(f"{self.target} cannot be reached: {error.strerror or error}") from None

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        from pyspark.sql.functions import col, struct, to_json

        names, origin = split_origin(rows.columns)
        columns = [col(f"`{name.replace('`', '``')}`") for name in names]
        return rows.select(to_json(struct(*columns), _JSON_OPTIONS).alias(VALUE), *origin)

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        from tailrace.spark.connector.webhook.sender import write_rows

        # A request without an answer may have arrived, so it must not be repeated where rows arrive at most once.
        is_repeated = place.delivery is not Delivery.AT_MOST_ONCE
        write_rows(batch, self.target if is_repeated else replace(self.target, retries=0), place)


def webhook(
    url: str | None = None,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    batch_size: int = 1,
    retries: int = 8,
    timeout: float = 30.0,
    ca: str | None = None,
    secret: str | None = None,
    listen: str | None = None,
    path: str = "/",
    topic: str | None = None,
    schema: Any = None,
    include: Sequence[str] = (),
    malformed: str | None = None,
    start: str | None = None,
    keep: Sequence[str] = (),
    body_bytes_max: int = WEBHOOK_BODY_BYTES_MAX,
    partitions: int | None = None,
) -> Any:
    """HTTP requests as the sink of a flow, or requests that come in as its source.

    A sink with a `url` sends each row as a JSON object, or with `batch_size` arrays of up to so many rows. A request
    that gets no answer, or the status 408, 409, 425, 429 or 5xx, is repeated `retries` times with growing waits, or
    after what the answer asks for; after that the flow restarts. A request whose rows are refused is divided until the
    refused rows are found. `timeout` is how long to wait for an answer, in seconds; `ca` is a PEM file with the
    certificates to trust instead of the system's. With a `secret`, requests are signed with X-Hub-Signature-256.

    A source listens at `listen`, such as "127.0.0.1:8090", and `path`, and writes each request to `topic`, which the
    flow reads: `schema`, `include`, `malformed` and `start` are those of `topic`. A request is answered with 200 when
    it is in the topic. With a `secret`, requests must be signed with it. Records keep the headers in `keep`. The topic
    is made if it does not exist, with so many `partitions`.
    """
    if (url is None) == (listen is None):
        raise PipelineError("webhook() needs either url=, as a sink, or listen=, as a source")
    if secret is not None and (not isinstance(secret, str) or not secret):
        raise PipelineError("webhook(): secret= is not a text")
    if url is not None:
        for_source = {"topic": topic, "schema": schema, "malformed": malformed, "start": start}
        _refuse("webhook(url) is a sink", for_source | {"keep": keep, "include": include, "partitions": partitions})
        return WebhookSink(_check_target(url, method, headers, secret, ca, batch_size, retries, timeout))
    _refuse("webhook(listen=…) is a source", {"headers": headers, "ca": ca})
    if not isinstance(path, str) or not path.startswith("/"):
        raise PipelineError(f"webhook(listen=…): path={path!r} does not begin with /")
    if not topic:
        raise PipelineError("webhook(listen=…) needs topic=, which keeps the requests until the flow reads them")
    size = _check_count("body_bytes_max", body_bytes_max, 1)
    return WebhookSource(
        _check_address(listen),
        Route(path, topic, secret, schema is not None, check_columns(keep), size),
        topic_source(topic, schema=schema, include=include, malformed=malformed, start=start),
        None if partitions is None else _check_count("partitions", partitions, 1),
    )


def _refuse(what: str, given: Mapping[str, Any]) -> None:
    """Raise `PipelineError` for an argument that is for the other end of a flow."""
    for name, value in given.items():
        if value:
            raise PipelineError(f"{what}, and {name}= is for a {'source' if 'sink' in what else 'sink'}")


def _check_target(
    url: Any, method: Any, headers: Any, secret: str | None, ca: Any, batch_size: Any, retries: Any, timeout: Any
) -> Target:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise PipelineError("webhook() needs a URL such as https://hooks.example.com/orders")
    if method not in METHODS:
        raise PipelineError(f"webhook(): method={method!r} is not one of {', '.join(METHODS)}")
    if headers is not None and not (
        isinstance(headers, Mapping) and all(isinstance(text, str) for pair in headers.items() for text in pair)
    ):
        raise PipelineError("webhook(): headers= is a mapping of names to texts")
    pairs = tuple((headers or {}).items())
    if any(bad in text for pair in pairs for text in pair for bad in "\r\n"):
        raise PipelineError("webhook(): a header has a line break")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise PipelineError(f"webhook(): timeout={timeout!r} is not a positive number of seconds")
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        pairs = (("Authorization", f"Basic {b64encode(user.encode()).decode()}"), *pairs)
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    target = Target(
        urlunsplit(parts),
        method,
        pairs,
        secret,
        ca,
        _check_count("batch_size", batch_size, 1),
        _check_count("retries", retries, 0),
        float(timeout),
    )
    try:
        str(target)
    except ValueError as error:  # the port is not a number
        raise PipelineError(f"webhook(): the URL is invalid: {error}") from None
    return target


def _check_address(listen: Any) -> tuple[str, int]:
    host, _, port = listen.rpartition(":") if isinstance(listen, str) else ("", "", "")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise PipelineError(f'webhook(): listen={listen!r} is not an address such as "127.0.0.1:8090"')
    return host.strip("[]"), int(port)


def _check_count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PipelineError(f"webhook(): {name}={value!r} is not a number of at least {least}")
    return value
