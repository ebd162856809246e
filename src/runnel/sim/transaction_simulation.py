"""One seed of transactions: brokers, clients that write in transactions, some of them old, and all that goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from runnel.client.setting import SettingValue
from runnel.client.transaction_coordinator import TransactionCoordinator
from runnel.sim.cluster import ClusterSimulation
from runnel.sim.process import PROCESS
from runnel.sim.simulation import Outcome, Simulation
from runnel.sim.transaction_workload import TransactionWorkload
from runnel.sim.workload import Workload
from runnel.sim.world import World

OPTIONS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


def make_workload(simulation: Simulation) -> TransactionWorkload:
    """Transactions with the seed's settings, and nothing else next to them."""
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
    """Have some clients not know transactions of the second generation, as librdkafka does not."""
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
    """One broker."""

    def choose_workloads(self) -> list[Workload]:
        return [make_workload(self)]

    def broker_options(self) -> dict[str, str]:
        factor = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
        return {**super().broker_options(), **OPTIONS, **factor}

    def run(self) -> Outcome:
        with old_clients(self.world):
            return super().run()


class TransactionClusterSimulation(ClusterSimulation):
    """Several brokers. A transaction takes longer than a record, so there is more time than elsewhere."""

    def choose_length(self) -> float:
        return self.random.choice([8.0, 12.0, 20.0])

    def choose_workloads(self) -> list[Workload]:
        return [make_workload(self)]

    def broker_options(self) -> dict[str, str]:
        return {**super().broker_options(), **OPTIONS, "transaction.state.log.replication.factor": "3"}

    def run(self) -> Outcome:
        with old_clients(self.world):
            return super().run()
