"""Quotas in a cluster: a change on one broker holds on all, and survives kills and a new controller."""

import pytest
from tests.unit.sample import BrokerInMemory
from tests.unit.server.handlers.peer import Peer
from tests.unit.server.handlers.test_client_quota_handlers import alter, describe, entry
from tests.unit.server.replication.cluster import running, until

from tailrace.machines.quota.key import QuotaKey
from tailrace.protocol.messages.client_quota import AlterClientQuotasRequest, AlterClientQuotasResponse
from tailrace.server.quota.live_table import read_table


async def test_a_change_on_one_broker_holds_on_all() -> None:
    async with running(3, is_governed=True) as cluster:
        await until(lambda: len(cluster.metadata.image.admitted) == 3)
        other = next(each for each in (1, 2, 3) if each != cluster.metadata.image.controller_id)
        connection = await cluster[other].ask()
        request = AlterClientQuotasRequest(entries=[entry({"user": "alice"}, {"producer_byte_rate": 1024.0})])
        response = await connection.request(request, AlterClientQuotasResponse)
        await connection.close()
        assert [outcome.error_code for outcome in response.entries] == [0]
        brokers = [member.server.broker for member in cluster.members.values() if member.server is not None]
        assert len(brokers) == 3
        await until(
            lambda: all(read_table(each.image).find(QuotaKey.PRODUCE, "alice", "c") is not None for each in brokers)
        )


@pytest.mark.parametrize("is_killed", [False, True])
async def test_quotas_survive_a_restart(is_killed: bool) -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await alter(Peer(broker, machine), entry({"user": "alice", "client-id": None}, {"consumer_byte_rate": 5.0}))
        if is_killed:
            await machine.kill(broker)
    async with machine.running() as again:
        client = Peer(again, machine)
        assert client._dispatcher.quotas.is_active
        assert await describe(client) == [({"user": "alice", "client-id": None}, {"consumer_byte_rate": 5.0})]
