"""`tailrace cluster describe`, in a pipe."""

import json
import re

from tests.unit.cli.conftest import Run
from tests.unit.cli.trio import trio

FEATURES = {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}


async def test_brokers_features_and_unhealthy_partitions(run: Run, topic: str) -> None:
    async with trio(run) as brokers:
        first, second = await brokers.create(topic)
        status, output, error = await brokers.call("cluster", "describe")
        assert (status, error) == (0, "")
        summary, *lines = output.splitlines()
        assert re.fullmatch(
            r"cluster [\w-]{22} · 3 brokers · controller [123] · 1 topic · 1 partition"
            r" · 0 under-replicated · 0 offline",
            summary,
        )
        for broker_id, server in brokers.servers.items():
            line = (
                f"broker {broker_id} address 127.0.0.1:{server.endpoints[0].port} rack {'aba'[broker_id - 1]}"
                f" leaders {int(broker_id == first)} replicas {int(broker_id in (first, second))}"
            )
            assert lines[broker_id - 1].removesuffix(" controller") == line
        assert lines[3:] == [f"feature {name} level {level}" for name, level in FEATURES.items()]

        await brokers.stop(second)
        await brokers.until(topic, lambda found: found.isr == (first,))
        output = (await brokers.call("cluster", "describe"))[1]
        assert "· 2 brokers ·" in output
        assert "· 1 under-replicated · 0 offline" in output
        shown = f"partition {topic}-0 under-replicated leader {first} replicas {first},{second} isr {first}"
        assert output.splitlines()[-1] == shown

        await brokers.stop(first)
        await brokers.until(topic, lambda found: found.leader < 0)
        output = (await brokers.call("cluster", "describe"))[1]
        assert f"partition {topic}-0 offline leader - replicas {first},{second} isr -\n" in output
        described = json.loads((await brokers.call("cluster", "describe", "--json"))[1])
        assert described["features"] == FEATURES
        assert (described["topics"], described["partitions"], described["under_replicated"]) == (1, 1, [])
        assert described["offline"] == [
            {"topic": topic, "partition": 0, "leader": -1, "replicas": [first, second], "isr": []}
        ]
        (only,) = described["brokers"]
        assert (only["id"], described["controller"]) == (6 - first - second, only["id"])
