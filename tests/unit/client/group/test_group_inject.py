"""Members whose broker answers with errors, drops connections or loses replies: they read everything all the same."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.port import free_port
from tests.unit.client.conftest import PATIENT_GROUPS, find_membership
from tests.unit.client.lossy_proxy import LossyProxy

import tailrace
from tailrace.client.backoff import Deadline
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker

PATIENCE_MS = 60_000

CLASSIC_FAULTS = [
    ("FIND_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
    ("FIND_COORDINATOR", None),
    ("JOIN_GROUP", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("JOIN_GROUP", "NOT_COORDINATOR"),
    ("JOIN_GROUP", "UNKNOWN_MEMBER_ID"),
    ("JOIN_GROUP", None),
    ("SYNC_GROUP", "REBALANCE_IN_PROGRESS"),
    ("SYNC_GROUP", "ILLEGAL_GENERATION"),
    ("SYNC_GROUP", "COORDINATOR_NOT_AVAILABLE"),
    ("SYNC_GROUP", None),
    ("HEARTBEAT", "UNKNOWN_MEMBER_ID"),
    ("HEARTBEAT", "ILLEGAL_GENERATION"),
    ("HEARTBEAT", "REBALANCE_IN_PROGRESS"),
    ("HEARTBEAT", "NOT_COORDINATOR"),
    ("HEARTBEAT", None),
]
OFFSET_FAULTS = [
    ("OFFSET_FETCH", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OFFSET_FETCH", "UNSTABLE_OFFSET_COMMIT"),
    ("OFFSET_FETCH", None),
    ("OFFSET_COMMIT", "NOT_COORDINATOR"),
    ("OFFSET_COMMIT", "REBALANCE_IN_PROGRESS"),
    ("OFFSET_COMMIT", None),
]
CONSUMER_FAULTS = [
    ("CONSUMER_GROUP_HEARTBEAT", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("CONSUMER_GROUP_HEARTBEAT", "NOT_COORDINATOR"),
    ("CONSUMER_GROUP_HEARTBEAT", "UNKNOWN_MEMBER_ID"),
    ("CONSUMER_GROUP_HEARTBEAT", "FENCED_MEMBER_EPOCH"),
    ("CONSUMER_GROUP_HEARTBEAT", None),
    ("OFFSET_COMMIT", "STALE_MEMBER_EPOCH"),
]
CASES = [
    *(("cooperative", api, error) for api, error in CLASSIC_FAULTS + OFFSET_FAULTS),
    *(("consumer", api, error) for api, error in CONSUMER_FAULTS),
]


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[Broker, LossyProxy, str]]:
    """A broker, and a proxy that its clients are sent to."""
    with LossyProxy() as proxy:
        port = free_port()
        proxy.forward_to(f"127.0.0.1:{port}")
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
        }
        with Broker({**PATIENT_GROUPS, **listeners}) as broker:
            yield broker, proxy, f"127.0.0.1:{proxy.port}"


def membership_of(kind: str, group_apis: frozenset[int], *, joins_anew: bool) -> dict[str, Any]:
    """Return the settings of a member; the group waits until the session of one that joins anew is over."""
    membership = find_membership(kind, group_apis)
    return membership | {"session_timeout_ms": "1000"} if joins_anew and kind != "consumer" else membership


def read_all(consumer: tailrace.Consumer, found: set[int], count: int) -> None:
    deadline = Deadline(PATIENCE_MS)
    while len(found) < count:
        assert not deadline.is_over, f"{len(found)} of {count} records"
        found.update(int(record.value or b"") for record in consumer.poll(0.05))


def work(broker: Broker, address: str, membership: dict[str, Any], is_met: Callable[[], bool]) -> None:
    """Read in a group, with commits now and then, until the faults are met, and some more."""
    topic = f"inject-{uuid.uuid4().hex[:12]}"
    broker.create_topic(topic, 2)
    found: set[int] = set()
    deadline = Deadline(PATIENCE_MS)
    quick: dict[str, Any] = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 10, "retry_backoff_ms": 5}
    with tailrace.Consumer(address, group_id=f"g-{topic}", **quick, **membership).subscribe(topic) as consumer:
        rounds = 3
        while rounds:
            assert not deadline.is_over, "the fault was never met"
            start = len(found)
            broker.produce(topic, [b"%d" % number for number in range(start, start + 10)])
            read_all(consumer, found, start + 10)
            with suppress(tailrace.CommitFailed):  # it may be out of the group at the moment
                consumer.commit()
            rounds -= is_met()
    assert found == set(range(len(found)))


@pytest.mark.parametrize(("kind", "api", "error"), CASES)
def test_what_passes_is_borne(
    proxied: tuple[Broker, LossyProxy, str], group_apis: frozenset[int], kind: str, api: str, error: str | None
) -> None:
    broker, _, address = proxied
    if ApiKey[api] not in group_apis:
        pytest.skip("the broker does not advertise it yet")
    membership = membership_of(kind, group_apis, joins_anew=error == "UNKNOWN_MEMBER_ID")
    fault = broker.inject(api, error=error, drop=error is None, count=2)
    try:
        work(broker, address, membership, lambda: fault.hits > 0)
    finally:
        broker.clear_faults()


LOST = {
    "cooperative": ["FIND_COORDINATOR", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "OFFSET_COMMIT", "OFFSET_FETCH"],
    "consumer": ["CONSUMER_GROUP_HEARTBEAT", "OFFSET_COMMIT"],
}


@pytest.mark.parametrize(("kind", "api"), [(kind, api) for kind, apis in LOST.items() for api in apis])
def test_a_lost_reply_is_borne(
    proxied: tuple[Broker, LossyProxy, str], group_apis: frozenset[int], kind: str, api: str
) -> None:
    broker, proxy, address = proxied
    if ApiKey[api] not in group_apis:
        pytest.skip("the broker does not advertise it yet")
    membership = membership_of(kind, group_apis, joins_anew=api == "JOIN_GROUP")
    before = proxy.lost_count
    proxy.lose(ApiKey[api], True, False, True)
    work(broker, address, membership, lambda: proxy.lost_count > before)


@pytest.mark.parametrize(
    "error", ["GROUP_AUTHORIZATION_FAILED", "INCONSISTENT_GROUP_PROTOCOL", "GROUP_MAX_SIZE_REACHED"]
)
def test_what_will_not_pass_is_raised_by_every_read(
    proxied: tuple[Broker, LossyProxy, str], group_apis: frozenset[int], error: str
) -> None:
    broker, _, address = proxied
    membership = find_membership("eager", group_apis)
    broker.create_topic(topic := f"inject-{uuid.uuid4().hex[:12]}")
    broker.inject("JOIN_GROUP", error=error)
    try:
        with tailrace.Consumer(address, group_id=f"g-{topic}", **membership).subscribe(topic) as consumer:
            for _ in range(2):
                with pytest.raises(tailrace.ApiError, match=f"{error}: joining group g-{topic}"):
                    consumer.poll(60)
            consumer.unsubscribe()
            consumer.subscribe(topic)
            assert consumer.poll(0.1) == []
    finally:
        broker.clear_faults()
