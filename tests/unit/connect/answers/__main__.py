"""Record the answers of a real Kafka Connect worker to all stories, and the records that it has written.

    python -m tests.unit.connect.answers record [STORY…]
    python -m tests.unit.connect.answers tell URL [STORY…]

`record` runs a worker from Maven Central against a broker of ours, and writes `kafka_connect_answers.json`; with names,
the other stories keep their answers. `tell` prints how the answers of a worker without connectors differ.
"""

from __future__ import annotations

import json
import sys

from bench.kafka import KAFKA_VERSION
from bench.kafka_connect import KafkaConnect
from tests.unit.connect.answers.compare import RECORDED, differences, expected, recorded
from tests.unit.connect.answers.record import tell
from tests.unit.connect.answers.stories import STORIES

from tailrace.testing import Broker


def _record(names: list[str]) -> None:
    stories = recorded()["stories"] if names else {}
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders", 2)
        with KafkaConnect(broker.bootstrap_servers) as worker:
            for name in names or STORIES:
                stories[name] = tell(name, worker.url)
                print(f"{name}: {len(stories[name])} answers", flush=True)
    told = {name: stories[name] for name in STORIES}
    RECORDED.write_text(json.dumps({"version": KAFKA_VERSION, "stories": told}, ensure_ascii=False, indent=1) + "\n")


def main() -> int:
    task, *rest = sys.argv[1:]
    if task == "record":
        _record(rest)
        return 0
    url, *names = rest
    for name in names or STORIES:
        print("\n".join([name, *differences(expected(name), tell(name, url))]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
