"""Tests may be coroutines, each in an event loop of its own; one ZooKeeper server is for all that do it no harm."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess, require_zookeeper
from tests.unit.sim.scene import play


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    run = play if pyfuncitem.get_closest_marker("virtual_time") else asyncio.run
    run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    require_zookeeper()
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    assert server.stop() == 0
