"""Ask Apache Kafka all cases of the table and keep its answers.

    python -m tests.authorization.record

Needs Java and Maven Central (see `bench/kafka.py`).
"""

from __future__ import annotations

import json
import sys

from bench.kafka import ApacheKafka, free_ports
from tests.authorization.table import CASES, GRANTS, RECORDED, cells, folded
from tests.authorization.world import World, properties


def main() -> int:
    """Record the table."""
    port, inner_port, controller_port = free_ports(3)
    configs = properties(GRANTS, port, inner_port)
    addresses = configs["listeners"]
    configs |= {
        "unstable.api.versions.enable": "true",  # InitProducerId v6
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }
    with ApacheKafka(configs) as kafka:
        world = World(f"127.0.0.1:{port}", GRANTS)
        try:
            world.prepare()
            recorded = {case.title: folded(cells(world, case)) for case in CASES}
        except BaseException:
            print(kafka.log_text()[-4000:])
            raise
        finally:
            world.close()
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
