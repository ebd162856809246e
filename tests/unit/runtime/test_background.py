"""Background tasks of a broker that crash: the error is logged and the task is restarted."""

import logging
from typing import Any

import pytest
from tests.unit.runtime.members import members

import tailrace.runtime.background
import tailrace.runtime.controller.settlement
from tailrace.machines.controller.settle import settle
from tailrace.runtime.background import run_restarted
from tailrace.runtime.registration import Registration


class BugError(Exception):
    """A bug in a background task."""


class Fails:
    """Raises when it is first called, and does what it should after that."""

    def __init__(self, does: Any) -> None:
        self._does = does
        self.count = 0

    def __call__(self, *arguments: Any) -> Any:
        self.count += 1
        if self.count == 1:
            raise BugError
        return self._does(*arguments)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailrace.runtime.background, "BACKGROUND_RESTART_S", 0)


def bugs(caplog: pytest.LogCaptureFixture) -> list[type[BaseException]]:
    """What the log file says of bugs."""
    found = [record.exc_info for record in caplog.records if record.levelno == logging.ERROR and record.exc_info]
    return [kind for kind, *_ in found if kind is not None]


async def test_what_fails_begins_again_and_what_ends_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    async def end() -> None:
        pass

    run = Fails(end)
    await run_restarted(run)
    assert run.count == 2
    assert bugs(caplog) == [BugError]


async def test_a_controller_goes_on_after_a_bug(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its task ended without a word, and from then on nobody was elected for whoever died."""
    async with members(1, 2, 3) as cluster:
        await cluster.create([2, 3, 1])
        monkeypatch.setattr(tailrace.runtime.controller.settlement, "settle", Fails(settle))
        await cluster.kill(2)
        await cluster.until(lambda: cluster.state().leader == 3)
        assert bugs(caplog) == [BugError]


async def test_a_broker_registers_again_after_a_bug(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with members(1, 2) as cluster:
        monkeypatch.setattr(Registration, "_is_clean", Fails(lambda: True))
        epoch = cluster.image.brokers[2].epoch
        cluster.stores[2].expire()
        await cluster.until(lambda: 2 in cluster.image.brokers and cluster.image.brokers[2].epoch > epoch)
        assert bugs(caplog) == [BugError]
