"""The receivers of this process, and the topics into which they write.

A receiver is opened by the first flow that listens at its address, and closed when the last one has stopped.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tailrace.client.admin.core import NewTopic
from tailrace.client.admin.sync import Admin
from tailrace.client.error import ClientError
from tailrace.client.metadata import Topic as TopicView
from tailrace.client.produce.producer import Producer
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.connector.webhook.receiver import Receiver
from tailrace.spark.connector.webhook.request import Record, Route
from tailrace.spark.error import ConnectorError, RetriableConnectorError

_BROKER_DEFAULT = -1
_STORE_TIMEOUT_S = 30.0
_CLIENT = {
    "kafka.acks": "all",
    "kafka.client.id": "tailrace-webhook",
    "kafka.delivery.timeout.ms": str(int(_STORE_TIMEOUT_S * 1000)),
    "kafka.request.timeout.ms": "10000",
    "kafka.max.block.ms": str(int(_STORE_TIMEOUT_S * 1000)),
    "kafka.linger.ms": "2",
}


class TopicStore:
    """Writes records to topics, and waits until all in-sync replicas have them."""

    def __init__(self, client: Mapping[str, str]) -> None:
        options = {f"kafka.{name}": text for name, text in client.items()} | _CLIENT
        self._producer = Producer(config=parse_client_settings(options).producer)

    def __call__(self, topic: str, records: Sequence[Record]) -> None:
        futures = [self._producer.send(topic, record.value, record.key, record.headers) for record in records]
        for future in futures:
            future.result(_STORE_TIMEOUT_S)

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(0)


@dataclass(slots=True)
class _Intake:
    receiver: Receiver
    store: TopicStore
    flows: set[str] = field(default_factory=set)


_lock = threading.Lock()
_intakes: dict[tuple[str, int], _Intake] = {}


def open_intake(address: tuple[str, int], route: Route, client: Mapping[str, str], flow: str) -> None:
    """Take requests for a flow; does nothing if it does so already."""
    with _lock:
        intake = _intakes.get(address)
        if intake is None:
            store = TopicStore(client)
            try:
                intake = _Intake(Receiver(*address, store), store)
            except BaseException:
                store.close()
                raise
            intake.receiver.start()
            _intakes[address] = intake
        intake.flows.add(flow)
        intake.receiver.open(route)


def close_intake(address: tuple[str, int], flow: str) -> None:
    """Stop taking requests for a flow; the last flow of an address closes it."""
    with _lock:
        intake = _intakes.get(address)
        if intake is None:
            return
        intake.flows.discard(flow)
        if intake.flows:
            return
        del _intakes[address]
    intake.receiver.stop()
    intake.store.close()


def require_topic(client: Mapping[str, str], topic: str, partitions: int | None) -> None:
    """Create a topic unless it exists; raises `ConnectorError` if that is not possible."""
    try:
        with Admin(
            config=parse_client_settings({f"kafka.{name}": text for name, text in client.items()}).admin
        ) as admin:
            if isinstance(admin.describe_topics([topic])[topic], TopicView):
                return
            outcome = admin.create_topics([NewTopic(topic, partitions or _BROKER_DEFAULT)])[topic]
    except ClientError as error:
        raise RetriableConnectorError(f"webhook: topic {topic} cannot be created: {error}") from None
    if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise ConnectorError(f"webhook: topic {topic} cannot be created: {outcome}")
