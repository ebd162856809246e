"""Tests may be coroutines, each in an event loop of its own; one ZooKeeper server is for all that do it no harm."""

import asyncio
import inspect
import logging
import threading
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


@pytest.fixture(autouse=True)
def _no_lines_of_other_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep what the brokers of other tests log, each in a thread of this process, out of a test's own log."""
    if "caplog" not in request.fixturenames or any("broker" in name for name in request.fixturenames):
        yield
        return
    others = [thread for thread in threading.enumerate() if thread.name == "tailrace-broker"]

    def is_own(record: logging.LogRecord) -> bool:
        # Threads that have ended leave their numbers to new ones.
        return not any(thread.ident == record.thread and thread.is_alive() for thread in others)

    handler = request.getfixturevalue("caplog").handler
    handler.addFilter(is_own)
    yield
    handler.removeFilter(is_own)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    require_zookeeper()
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    assert server.stop() == 0
