"""How many fetchers follow a leader, while brokers run."""

from functools import partial

from tests.unit.server.replication.cluster import Cluster, running, until

from tailrace.machines.controller.record import CLUSTER_DEFAULT, ConfigKind, ConfigRecord


async def set_fetchers(cluster: Cluster, count: int) -> None:
    await cluster.commit(ConfigRecord(ConfigKind.BROKER, CLUSTER_DEFAULT, {"num.replica.fetchers": str(count)}))


async def test_partitions_are_given_to_more_and_to_fewer_fetchers() -> None:
    async with running(2, num_replica_fetchers="1") as cluster:
        await cluster.create([(1, 2)] * 8)
        assert cluster[2].server is not None
        fetchers = cluster[2].server.broker.fetchers

        def has_fetchers(count: int) -> bool:
            return len(fetchers._fetchers) == count

        for count in (1, 3, 2):
            await set_fetchers(cluster, count)
            await until(partial(has_fetchers, count))
            assert sum(map(len, fetchers._fetchers.values())) == 8
            for index in range(8):
                assert (await cluster.produce(1, b"%d" % count, index=index)).error_code == 0
        ends = [cluster[2].partition("t", index).log.log_end_offset for index in range(8)]
        assert ends == [3] * 8
