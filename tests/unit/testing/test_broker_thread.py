"""An embedded broker that goes wrong while it starts, while it stops, and in between."""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

import tailrace.server.server
from tailrace.client.cluster import Cluster
from tailrace.config import ConfigError
from tailrace.config.broker import BrokerConfig
from tailrace.runtime.broker import Broker as OpenBroker
from tailrace.server.server import Server
from tailrace.testing import Broker, broker_thread
from tailrace.testing.broker_thread import BrokerThread
from tailrace.testing.fault import Faults

DEADLINE_S = 60


class WrongError(Exception):
    """What is wrong, and has to be what the caller sees."""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder where brokers make theirs. None of the test's own brokers may outlive the test."""
    others = broker_threads()  # such as that of the session's broker, if a test before has started it
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert broker_threads() == others


def broker_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "tailrace-broker"}


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def raising_later(error: Exception) -> Callable[..., Any]:
    async def fail(*_: object, **__: object) -> None:
        raise error

    return fail


async def hang(*_: object) -> Any:
    return await asyncio.get_running_loop().create_future()


def assert_stopped(broker: Broker, temporary: Path) -> None:
    """It left no folder, and can be started once what was wrong is mended; the fixture looks for its thread."""
    assert not broker.is_running
    assert list(temporary.iterdir()) == []


# --- the start


@pytest.mark.parametrize(
    ("owner", "stage"),
    [
        pytest.param(threading.Thread, "start", id="no thread"),
        pytest.param(asyncio.Runner, "__enter__", id="no event loop"),
        pytest.param(Server, "__init__", id="no server"),
    ],
)
def test_a_start_that_fails_at_once(owner: type, stage: str, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller waited half a minute for a thread that had died, and then heard only of a timeout."""
    broker = Broker()
    with monkeypatch.context() as patch:
        patch.setattr(owner, stage, raising(WrongError(stage)))
        with pytest.raises(WrongError, match=stage):
            broker.start()
    assert_stopped(broker, temporary)
    with broker:
        broker.create_topic("afterwards")


def test_a_server_that_does_not_start(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller asked the thread to stop when its loop had closed, and heard of nothing but that."""
    closed, joining = threading.Event(), threading.Event()
    close, join = asyncio.Runner.__exit__, threading.Thread.join

    def close_and_wait(runner: asyncio.Runner, *reason: Any) -> None:
        close(runner, *reason)
        closed.set()
        joining.wait(DEADLINE_S)

    def tell_and_join(thread: threading.Thread, timeout: float | None = None) -> None:
        joining.set()
        join(thread, timeout)

    class StoppedLate(Broker):
        def stop(self) -> None:
            closed.wait(DEADLINE_S)
            super().stop()

    broker = StoppedLate()
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Runner, "__exit__", close_and_wait)
        patch.setattr(threading.Thread, "join", tell_and_join)
        patch.setattr(broker_thread, "start_server", raising_later(WrongError("no port is free")))
        try:
            with pytest.raises(WrongError, match="no port is free"):
                broker.start()
        finally:
            joining.set()
    assert_stopped(broker, temporary)


def test_a_server_that_cannot_even_stop_what_it_started(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What went wrong in cleaning up replaced what had gone wrong before it."""
    broker = Broker()
    with monkeypatch.context() as patch:
        patch.setattr(tailrace.server.server, "_open_metrics", raising_later(WrongError("the cause")))
        stop = OpenBroker.stop

        async def stop_badly(opened: OpenBroker) -> None:
            await stop(opened)
            raise OSError("a consequence")

        patch.setattr(OpenBroker, "stop", stop_badly)
        with pytest.raises(WrongError, match="the cause"):
            broker.start()
    assert_stopped(broker, temporary)


def test_a_configuration_that_is_wrong_leaves_no_folder(temporary: Path) -> None:
    broker = Broker({"no.such.option": "1"})
    with pytest.raises(ConfigError, match=r"no\.such\.option"):
        broker.start()
    assert_stopped(broker, temporary)


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_start_that_takes_too_long_is_given_up(
    is_interrupted: bool, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose start hung was waited for without end, since it looked only afterwards whether to stop."""
    entered = threading.Event()

    async def enter(*_: Any, **__: Any) -> None:
        entered.set()
        await hang()

    def wait_until_it_hangs(_futures: object, _timeout_s: float) -> Any:
        assert entered.wait(DEADLINE_S)
        if is_interrupted:
            raise KeyboardInterrupt
        return wait([], 0)

    broker = Broker()
    with monkeypatch.context() as patch:
        patch.setattr(broker_thread, "start_server", enter)
        patch.setattr(broker_thread, "wait", wait_until_it_hangs)
        with pytest.raises(KeyboardInterrupt if is_interrupted else TimeoutError):
            broker.start()
    assert_stopped(broker, temporary)


def test_a_start_that_is_given_up_before_the_loop_runs(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = threading.Event()
    run, join = asyncio.Runner.run, threading.Thread.join

    def run_late(runner: asyncio.Runner, *arguments: Any) -> Any:
        assert given_up.wait(DEADLINE_S)
        return run(runner, *arguments)

    def tell_and_join(thread: threading.Thread, timeout: float | None = None) -> None:
        given_up.set()
        join(thread, timeout)

    broker = Broker()
    with monkeypatch.context() as patch:
        patch.setattr(broker_thread, "START_TIMEOUT_S", 0)
        patch.setattr(asyncio.Runner, "run", run_late)
        patch.setattr(threading.Thread, "join", tell_and_join)
        with pytest.raises(TimeoutError, match="did not start within 0 s"):
            broker.start()
    assert_stopped(broker, temporary)


# --- the stop


def fail_to_stop(patch: pytest.MonkeyPatch) -> None:
    """Have servers stop, and then say that something went wrong."""
    stop = Server.stop

    async def stop_badly(server: Server) -> None:
        await stop(server)
        raise WrongError("a disk is full")

    patch.setattr(Server, "stop", stop_badly)


def test_what_goes_wrong_in_a_stop_is_raised(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the thread, which nobody asked how it had ended."""
    fail_to_stop(monkeypatch)
    broker = Broker().start()
    with pytest.raises(WrongError, match="a disk is full"):
        broker.stop()
    assert_stopped(broker, temporary)
    with pytest.raises(WrongError, match="a disk is full"), broker:
        pass
    assert_stopped(broker, temporary)


def test_what_goes_wrong_in_a_block_is_not_hidden_by_the_stop(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail_to_stop(monkeypatch)
    with pytest.raises(AssertionError, match="of the test"), Broker() as broker:
        raise AssertionError("of the test")
    assert_stopped(broker, temporary)
    assert caplog.messages == ["the broker did not stop cleanly"]


# --- calls


def test_a_call_ends_with_the_broker(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that met the end of its broker got a `CancelledError` of the loop's, or waited for half a minute."""
    asked = threading.Event()

    async def ask(_: Cluster) -> Any:
        asked.set()
        return await hang()

    monkeypatch.setattr(Cluster, "__aenter__", ask)
    broker = Broker().start()
    with ThreadPoolExecutor(1) as other:
        call = other.submit(broker.create_topic, "never")
        assert asked.wait(DEADLINE_S)
        broker.stop()
        with pytest.raises(RuntimeError, match="stopped before it had answered"):
            call.result(DEADLINE_S)
    assert_stopped(broker, temporary)


def test_a_call_that_comes_as_the_loop_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given to a loop that had closed, or to one that would run it no more."""
    closed, tried = threading.Event(), threading.Event()
    close = asyncio.Runner.__exit__

    def close_and_wait(runner: asyncio.Runner, *reason: Any) -> None:
        close(runner, *reason)
        closed.set()
        tried.wait(DEADLINE_S)

    async def never() -> None:
        raise AssertionError("nothing runs any more")

    monkeypatch.setattr(asyncio.Runner, "__exit__", close_and_wait)
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    thread = BrokerThread(config, Faults().intercept)
    thread.start()
    with ThreadPoolExecutor(1) as other:
        stop = other.submit(thread.stop)
        assert closed.wait(DEADLINE_S)
        with pytest.raises(RuntimeError, match="not running"):
            thread.call(never)
        tried.set()
        stop.result(DEADLINE_S)


def test_a_call_has_its_own_timeouts_and_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker:
        monkeypatch.setattr(Cluster, "__aenter__", raising_later(TimeoutError("of the client")))
        with pytest.raises(TimeoutError, match="of the client"):
            broker.create_topic("never")
        monkeypatch.setattr(broker_thread, "CALL_TIMEOUT_S", 0)
        monkeypatch.setattr(Cluster, "__aenter__", hang)
        with pytest.raises(TimeoutError, match="did not answer within 0 s"):
            broker.create_topic("never")
