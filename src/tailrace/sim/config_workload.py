"""Administrators that alter configs during faults, and a final look at what every broker says that they are.

Each alters one config of the same topic, and brokers store all configs of a topic together.
"""

import asyncio
import itertools
from functools import partial
from random import Random

import tailrace.aio
from tailrace.client.admin.core import NewTopic, ResourceType
from tailrace.client.cluster import Cluster
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.config import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from tailrace.sim.workload import FAILURES, TRY_AGAIN_S, keep_trying
from tailrace.sim.world import Program, World

TOPIC = "configured"
ALTERED = {"file.delete.delay.ms": 60_000, "index.interval.bytes": 4_096}
"""Configs that change nothing for clients, each with the first of its values."""

_SPREAD_S = 1.0
_SET = 0


class ConfigWorkload:
    """Alters configs of a topic without records. Every value is set once."""

    def __init__(self, world: World, *, every_s: float) -> None:
        self._world = world
        self._every_s = every_s
        self._numbers = itertools.count(1)

    async def prepare(self) -> None:
        while True:
            try:
                async with tailrace.aio.Admin(self._world.bootstrap, request_timeout_ms=5_000) as admin:
                    answer = (await admin.create_topics([NewTopic(TOPIC, 1, 2)]))[TOPIC]
                    if not isinstance(answer, ApiError) or answer.code.name == "TOPIC_ALREADY_EXISTS":
                        return
            except FAILURES:
                pass
            await asyncio.sleep(TRY_AGAIN_S)

    def programs(self) -> dict[str, Program]:
        return {f"configurer-{number}": partial(self._run, config=config) for number, config in enumerate(ALTERED, 1)}

    async def _run(self, name: str, config: str) -> None:
        await keep_trying(self._world, name, partial(self._alter, config=config))

    async def _alter(self, name: str, config: str) -> None:
        random = Random(f"{name} {self._world.seed}")
        # One attempt each: a repeated one may arrive late and set an old value again, although it was acknowledged.
        async with Cluster(self._world.bootstrap, client_id=name) as cluster:
            while not self._world.is_ending:
                await asyncio.sleep(random.expovariate(1 / self._every_s))
                if not cluster.view.nodes:
                    await cluster.refresh([TOPIC])
                node_id = random.choice(sorted(cluster.view.nodes))
                value = str(ALTERED[config] + next(self._numbers))
                operation = self._world.recorder.invoke(name, "alter", topic=TOPIC, configs={config: value})
                try:
                    request = _alteration(config, value)
                    reply = await cluster.request(node_id, request, IncrementalAlterConfigsResponse, timeout_ms=2_000)
                except FAILURES as error:
                    operation.unknown(error)
                    continue
                if code := reply.responses[0].error_code:
                    operation.unknown(code)
                else:
                    self._world.count("configs altered")
                    operation.ok()

    async def drain(self) -> None:
        """Ask every broker, when the newest alteration has had time to reach it."""
        await asyncio.sleep(_SPREAD_S)
        await keep_trying(self._world, "configs", self._describe)

    async def _describe(self, name: str) -> None:
        resource = DescribeConfigsRequestResource(
            resource_type=ResourceType.TOPIC, resource_name=TOPIC, configuration_keys=list(ALTERED)
        )
        async with Cluster(self._world.bootstrap, client_id=name) as cluster:
            await cluster.refresh([TOPIC])
            for broker in self._world.brokers:
                operation = self._world.recorder.invoke(name, "describe", topic=TOPIC, broker=broker.broker_id)
                request = DescribeConfigsRequest(resources=[resource])
                reply = await cluster.request(broker.broker_id, request, DescribeConfigsResponse)
                operation.ok(configs={config.name: config.value for config in reply.results[0].configs})


def _alteration(config: str, value: str) -> IncrementalAlterConfigsRequest:
    change = IncrementalAlterConfigsRequestConfig(name=config, config_operation=_SET, value=value)
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=ResourceType.TOPIC, resource_name=TOPIC, configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])
