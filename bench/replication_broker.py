"""One of two brokers with constant metadata, in its own process, for `bench.replication`.

Broker 1 leads the only partition of the topic `t`, and broker 2 follows. The leader prints a line when it is ready. The
follower prints how long it took to replicate the given number of records, and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from uuid import UUID

from tailrace.base.event_loop import new_event_loop
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.memory import MemoryStore
from tailrace.machines.controller.record import (
    BrokerAdmitted,
    BrokerRecord,
    ControllerRecord,
    Endpoint,
    PartitionRecord,
    Record,
    TopicRecord,
)
from tailrace.server.server import Server, start_server

LEADER, FOLLOWER = 1, 2
TOPIC = "t"
POLL_S = 0.001


async def start(broker_id: int, data: str, leader_port: int) -> Server:
    """Start a server whose metadata has both the leader and the follower."""
    store = MemoryStore()
    port, other = (leader_port, FOLLOWER) if broker_id == LEADER else (0, LEADER)
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", leader_port, "PLAINTEXT")
    metadata = ClusterMetadata(store)
    await metadata.load()
    admissions = set()

    def admit(records: Sequence[Record]) -> None:
        """Act as a controller that only admits brokers: the broker's own would also elect leaders."""
        for record in records:
            if isinstance(record, BrokerRecord):
                admission = asyncio.ensure_future(metadata.commit([BrokerAdmitted(record.broker_id, record.epoch)]))
                admissions.add(admission)

    metadata.listen(admit)
    await metadata.commit(
        [
            ControllerRecord(0, 1),
            # This broker registers itself. The first commit to a store makes the first epoch.
            BrokerRecord(other, 1, (endpoint._replace(port=leader_port if other == LEADER else 1),)),
            TopicRecord(TOPIC, UUID(int=7), ((LEADER, FOLLOWER),)),
            PartitionRecord(TOPIC, 0, LEADER, 0, (LEADER,)),
        ]
    )
    settings = {"node.id": str(broker_id), "log.dirs": data, "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    return await start_server(BrokerConfig(settings), store=store)


async def lead(data: str, port: int) -> None:
    """Serve until the process is killed."""
    await start(LEADER, data, port)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def follow(data: str, leader_port: int, end_offset: int) -> None:
    """Catch up, print how long it took, and stop."""
    server = await start(FOLLOWER, data, leader_port)
    started, cpu_before = time.perf_counter(), time.process_time()
    log = server.broker.replicas.get(TOPIC, 0).log
    while log.log_end_offset < end_offset:
        await asyncio.sleep(POLL_S)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "cpu_s": time.process_time() - cpu_before}), flush=True)
    await server.stop()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.replication_broker")
    parser.add_argument("--data", required=True)
    parser.add_argument("--port", type=int, required=True, help="the port of the leader")
    parser.add_argument("--follow", type=int, metavar="OFFSET", help="follow until the log end offset is OFFSET")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if arguments.follow is None:
            runner.run(lead(arguments.data, arguments.port))
        else:
            runner.run(follow(arguments.data, arguments.port, arguments.follow))


if __name__ == "__main__":
    main()
