"""One ZooKeeper server for all tests that do nothing bad to it."""

from collections.abc import Iterator

import pytest
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess, require_zookeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    require_zookeeper()
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    assert server.stop() == 0
