"""Ask Apache Kafka all questions about delegation tokens and keep its answers.

    python -m tests.delegation_token.record

Needs Java and Maven Central (see `bench/kafka.py`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.kafka import ApacheKafka, free_ports
from tests.delegation_token.ground import Ground, properties
from tests.delegation_token.story import Story

RECORDED = Path(__file__).parent / "kafka_answers.json"


def main() -> int:
    """Record the answers."""
    RECORDED.write_text(json.dumps(_ask(has_key=True) | _ask(has_key=False), indent=1) + "\n")
    return 0


def _ask(*, has_key: bool) -> dict[str, str]:
    port, inner_port, controller_port = free_ports(3)
    configs = properties(port, inner_port, has_key=has_key)
    addresses = configs["listeners"]
    configs |= {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }
    with ApacheKafka(configs) as kafka:
        ground = Ground(port, inner_port)
        try:
            story = Story(ground)
            return dict(story.tell() if has_key else story.tell_without_key())
        except BaseException:
            print(kafka.log_text()[-4000:])
            raise
        finally:
            ground.close()


if __name__ == "__main__":
    sys.exit(main())
