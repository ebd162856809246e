"""A simulation in a process that also runs a real broker: the time of the one is nothing to the other."""

import asyncio
import threading

import pytest
from tests.unit.client.conftest import MEMBERSHIPS, PATIENT_GROUPS
from tests.unit.sim.scene import play

import tailrace
from tailrace.testing import Broker

PATIENCE_S = 60


def read_as_member(broker: Broker, group: str, kind: str) -> bytes | None:
    """Form a group, read the one record, and leave."""
    with tailrace.Consumer(
        broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest", **MEMBERSHIPS[kind]
    ) as consumer:
        consumer.subscribe("visits")
        (record,) = consumer.poll(PATIENCE_S, max_records=1)
        return record.value


@pytest.mark.parametrize("kind", ["eager", "consumer"])
def test_groups_form_while_a_simulation_runs_and_after_it(kind: str) -> None:
    """A coordinator that armed its alarm by the time of a simulation formed no group for hours."""
    with Broker(PATIENT_GROUPS) as broker:
        broker.create_topic("visits")
        broker.produce("visits", [b"one"])
        found: list[bytes | None] = []
        member = threading.Thread(target=lambda: found.append(read_as_member(broker, "during", kind)))

        async def hours() -> None:
            while member.is_alive():
                await asyncio.sleep(3_600)

        member.start()
        play(hours())
        member.join()
        assert found == [b"one"]
        assert read_as_member(broker, "after", kind) == b"one"
