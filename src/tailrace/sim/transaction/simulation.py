"""The simulation of transactions: brokers, transactional clients, some of them old, and faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from tailrace.client.setting import SettingValue
from tailrace.client.transaction.coordinator import TransactionCoordinator
from tailrace.sim.cluster import ClusterSimulation
from tailrace.sim.process import PROCESS
from tailrace.sim.simulation import Outcome, Simulation
from tailrace.sim.transaction.workload import TransactionWorkload
from tailrace.sim.workload import Workload
from tailrace.sim.world import World

OPTIONS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


def make_workload(simulation: Simulation) -> TransactionWorkload:
    """Create the transactional workload with the seed's parameters."""
    random = Random(f"transactions {simulation.world.seed}")
    producer: dict[str, SettingValue] = {"max.block.ms": random.choice([3_000, 10_000])}
    return TransactionWorkload(
        simulation.world,
        simulation.shape,
        producer=producer,
        transaction_timeout_ms=random.choice([1_000, 3_000, 10_000]),
    )


@contextmanager
def old_clients(world: World) -> Iterator[None]:
    """Make some clients unaware of the second transaction version, like librdkafka."""
    random = Random(f"generations {world.seed}")
    share = random.choice([0.0, 0.5, 1.0])
    ask = TransactionCoordinator.is_v2

    async def is_v2(coordinator: TransactionCoordinator) -> bool:
        process = PROCESS.get()
        is_old = process is not None and Random(f"{process.host} {world.seed}").random() < share
        return await ask(coordinator) and not is_old

    with patch.object(TransactionCoordinator, "is_v2", is_v2):
        yield


class TransactionSimulation(Simulation):
    """The simulation of transactions with one broker."""

    def choose_workloads(self) -> list[Workload]:
        workload = make_workload(self)
        return [workload, *self.limiters(*workload.topics)]

    def broker_options(self) -> dict[str, str]:
        factor = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
        return {**super().broker_options(), **OPTIONS, **factor}

    def run(self) -> Outcome:
        with old_clients(self.world):
            return super().run()


class TransactionClusterSimulation(ClusterSimulation):
    """The simulation of transactions with several brokers. It lasts longer, because a transaction takes longer."""

    care_share = 0.0
    unclean_share = 0.0
    may_have_groups = False
    old_share = 0.0

    def choose_length(self) -> float:
        return self.random.choice([8.0, 12.0, 20.0])

    def choose_workloads(self) -> list[Workload]:
        workload = make_workload(self)
        return [workload, *self.limiters(*workload.topics)]

    def broker_options(self) -> dict[str, str]:
        return {**super().broker_options(), **OPTIONS, "transaction.state.log.replication.factor": "3"}

    def run(self) -> Outcome:
        with old_clients(self.world):
            return super().run()
