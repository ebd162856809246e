"""A commit that the network holds until its client has repeated it and committed more.

The late commit must not take the group back: its client has closed the connection, and the broker looks at that before
it executes the commit.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.client.conftest import MEMBERSHIPS, PATIENT_GROUPS
from tests.unit.client.face import Face
from tests.unit.client.lossy_proxy import LossyProxy, lossy_broker

import tailrace
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker

pytestmark = [
    pytest.mark.exact,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux sends data and the end in one segment on request"),
]

OLD, NEW = 5, 19
PATIENCE_S = 60.0
REQUEST_TIMEOUT_MS = 1_000


@pytest.fixture(scope="module")
def holding_broker() -> Iterator[tuple[LossyProxy, Broker]]:
    with lossy_broker(**PATIENT_GROUPS) as both:
        yield both


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_late_commit_does_not_take_the_group_back(
    holding_broker: tuple[LossyProxy, Broker], topic: str, face: Face, protocol: str
) -> None:
    """The group had offset 5 in the end, after 19 was acknowledged and read back."""
    proxy, broker = holding_broker
    broker.create_topic(topic)
    broker.produce(topic, [b"%d" % number for number in range(NEW + 1)])
    settings: dict[str, Any] = {
        **MEMBERSHIPS[protocol],
        "group_id": topic,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
    }
    if protocol != "consumer":
        settings["session_timeout_ms"] = "60000"
    with face.consumer(broker.bootstrap_servers, **settings) as consumer:
        consumer.subscribe(topic)
        deadline_s = time.monotonic() + PATIENCE_S
        while not consumer.poll(timeout_s=0.1):
            assert time.monotonic() < deadline_s
        proxy.hold(ApiKey.OFFSET_COMMIT)
        consumer.commit({(topic, 0): OLD})
        consumer.commit({(topic, 0): NEW})
        place = tailrace.TopicPartition(topic, 0)
        assert consumer.committed()[place].offset == NEW
        proxy.deliver()
        assert consumer.committed()[place].offset == NEW
