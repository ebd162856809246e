"""Answers of the Connect service while its brokers do not answer."""

import asyncio
from dataclasses import replace

import pytest
from tests.logged import logged
from tests.unit.connect.conftest import serving

from tailrace.client.admin.aio import Admin
from tailrace.client.error import BootstrapError
from tailrace.connect import health
from tailrace.connect.service import ServiceOptions
from tailrace.connect.store import ConnectStore, TopicNames
from tailrace.testing import Broker

CONFIG = {"connector.class": "FileStreamSink", "file": "/data/lines.txt", "topics": "lines"}


async def test_offsets_of_a_sink_say_that_the_brokers_are_away(
    options: ServiceOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was "Internal Server Error", and the log had a traceback."""

    async def refuse(_admin: Admin) -> Admin:
        raise BootstrapError("cannot connect to kafka.example:9092: Connection refused")

    async with serving(options) as client:
        body = {"name": "out", "config": CONFIG, "initial_state": "STOPPED"}
        assert (await client.post("/connectors", json=body)).status_code == 201
        with monkeypatch.context() as patch:
            patch.setattr(Admin, "__aenter__", refuse)
            answer = await client.get("/connectors/out/offsets")
        assert (answer.status_code, answer.json()["message"]) == (
            500,
            "The brokers could not be asked: cannot connect to kafka.example:9092: Connection refused",
        )


async def test_a_change_says_that_the_brokers_did_not_answer(
    options: ServiceOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message ended with a colon, because a timeout has no text."""

    async def time_out(_store: ConnectStore, _rows: object) -> None:
        raise TimeoutError

    async with serving(options) as client:
        with monkeypatch.context() as patch:
            patch.setattr(ConnectStore, "_append", time_out)
            answer = await client.put("/connectors/out/config", json=CONFIG)
        assert (answer.status_code, answer.json()["message"]) == (
            500,
            "the topics of the Connect service cannot be written: the brokers did not answer within 30 s",
        )


async def test_the_health_says_that_the_brokers_are_away(
    options: ServiceOptions, names: TopicNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was 200 with "healthy"."""
    with Broker() as broker:
        own = replace(options, client={"bootstrap.servers": broker.bootstrap_servers})
        async with serving(own) as client:
            assert (await client.get("/health")).json()["status"] == "healthy"
            monkeypatch.setattr(health, "TIMEOUT_S", 0.5)
            await asyncio.to_thread(broker._end_thread)
            answers = await asyncio.gather(*(client.get("/health") for _ in range(3)))
            for answer in answers:
                assert (answer.status_code, answer.json()["status"]) == (500, "unhealthy")
                assert "may be unable to handle other requests. The brokers do not answer." in answer.json()["message"]
            monkeypatch.setattr(health, "TIMEOUT_S", 60.0)
            await asyncio.to_thread(broker.start)
            assert (await client.get("/health")).status_code == 200


async def test_callers_share_a_question_to_the_brokers(
    options: ServiceOptions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    count = 0

    async def ask_brokers(_store: ConnectStore) -> None:
        nonlocal count
        count += 1
        await asyncio.sleep(0)
        raise BootstrapError("cannot connect to kafka.example:9092: Connection refused")

    async with serving(options) as client:
        monkeypatch.setattr(ConnectStore, "ask_brokers", ask_brokers)
        answers = await asyncio.gather(*(client.get("/health") for _ in range(10)))
        assert {answer.status_code for answer in answers} == {500}
        assert "kafka.example" not in answers[0].text, "callers need no login"
        assert count < 10
    assert logged(caplog).count("cannot connect to kafka.example:9092") == 1
