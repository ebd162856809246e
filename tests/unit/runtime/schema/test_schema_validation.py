"""What a broker knows of schema ids: answers that are kept, questions that are joined, registries that fail."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.logged import logged
from tests.unit.runtime.schema.registry_stub import RegistryStub, registry_stub
from tests.unit.sample import ManualClock

from tailrace.base.limits import SCHEMA_REGISTRY_REST_MS, SCHEMA_UNKNOWN_MS
from tailrace.base.metric import Registry
from tailrace.config.broker import BrokerConfig
from tailrace.runtime.schema import validation as module
from tailrace.runtime.schema.registry import RegistryError
from tailrace.runtime.schema.validation import SchemaValidation


class Desk:
    """A registry, a clock that stands still, and the knowledge of a broker."""

    def __init__(self, stub: RegistryStub) -> None:
        self.stub = stub
        self.clock = ManualClock()
        config = BrokerConfig({"confluent.schema.registry.url": stub.url})
        self.validation = SchemaValidation(config, self.clock, Registry())


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    async with registry_stub() as stub:
        found = Desk(stub)
        yield found
        await found.validation.stop()


async def test_what_was_found_is_kept() -> None:
    async with desk() as it:
        it.stub.subjects[7] = ["t-value"]
        assert it.validation.known(7, "t-value") is None
        assert await it.validation.find(7, "t-value")
        it.clock.time_ms += 10**9
        assert it.validation.known(7, "t-value") is True
        assert it.validation.known(7, None) is True
        assert len(it.stub.asked) == 1


async def test_what_was_not_found_is_kept_for_a_moment() -> None:
    """An id that is registered after an error, or under one more subject, works at once."""
    async with desk() as it:
        it.stub.subjects[7] = ["u-value"]
        assert not await it.validation.find(7, "t-value")
        assert not await it.validation.find(8, None)
        it.clock.time_ms += SCHEMA_UNKNOWN_MS - 1
        assert [it.validation.known(7, "t-value"), it.validation.known(8, None)] == [False, False]
        it.clock.time_ms += 1
        assert [it.validation.known(7, "t-value"), it.validation.known(8, None)] == [None, None]
        assert it.validation.known(7, "u-value") is True
        it.stub.subjects = {7: ["u-value", "t-value"], 8: ["t-value"]}
        assert await it.validation.find(7, "t-value")
        assert await it.validation.find(8, None)
        assert [it.validation.known(number, "t-value") for number in (7, 8)] == [True, True]


async def test_a_subject_that_was_not_asked_for_is_not_missing() -> None:
    """The id was looked up for one topic, and then registered for another: its first record must not be refused."""
    async with desk() as it:
        it.stub.subjects[7] = ["t-value"]
        assert await it.validation.find(7, "t-value")
        it.stub.subjects[7] = ["t-value", "u-value"]
        assert it.validation.known(7, "u-value") is None
        assert await it.validation.find(7, "u-value")


async def test_an_answer_from_before_a_registration_is_not_the_last_word() -> None:
    """The lookup that a batch joins may have been answered before the schema of the batch was registered."""
    async with desk() as it:
        it.stub.subjects[7] = ["t-value"]
        it.stub.may_answer.clear()
        first = asyncio.create_task(it.validation.find(7, "t-value"))
        await it.stub.wait_asked(1)  # and its answer is made
        it.stub.subjects[7] = ["t-value", "u-value"]
        second = asyncio.create_task(it.validation.find(7, "u-value"))
        third = asyncio.create_task(it.validation.find(7, "u-value"))
        await asyncio.sleep(0)  # both have joined
        it.stub.may_answer.set()
        assert [await first, await second, await third] == [True, True, True]
        assert len(it.stub.asked) == 2


async def test_an_id_that_no_registry_gives_out_is_not_asked_for() -> None:
    async with desk() as it:
        assert it.validation.known(2**31, None) is False
        assert it.validation.known(2**31 - 1, None) is None


async def test_lookups_of_one_id_are_joined() -> None:
    async with desk() as it:
        it.stub.subjects = {7: ["t-value"], 8: ["t-value"]}
        it.stub.may_answer.clear()
        finds = [asyncio.create_task(it.validation.find(number, "t-value")) for number in (7, 8, 7, 7, 8)]
        await it.stub.wait_asked(1)
        it.stub.may_answer.set()
        assert await asyncio.gather(*finds) == [True] * 5
        assert it.stub.asked == ["/schemas/ids/7/subjects", "/schemas/ids/8/subjects"]


async def test_the_number_of_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCHEMA_ID_CACHE_COUNT", 2)
    async with desk() as it:
        it.stub.subjects = {number: ["t-value"] for number in (1, 2, 3)}
        await it.validation.find(1, None)
        await it.validation.find(2, None)
        assert it.validation.known(1, "t-value") is True  # and so 2 is the one that was used least recently
        await it.validation.find(3, None)
        assert [it.validation.known(number, "t-value") for number in (1, 2, 3)] == [True, None, True]


async def test_the_number_of_lookups_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCHEMA_LOOKUPS_WAITING_MAX", 2)
    async with desk() as it:
        it.stub.may_answer.clear()
        finds = [asyncio.create_task(it.validation.find(number, None)) for number in (1, 2)]
        await it.stub.wait_asked(1)
        with pytest.raises(RegistryError, match="too many"):
            await it.validation.find(3, None)
        it.stub.may_answer.set()
        await asyncio.gather(*finds)
        assert not await it.validation.find(3, None)


async def test_a_registry_that_fails_is_left_alone_for_a_moment(caplog: pytest.LogCaptureFixture) -> None:
    async with desk() as it:
        it.stub.subjects = {7: ["t-value"]}
        it.stub.fault = (500, b"")
        with pytest.raises(RegistryError, match="status 500"):
            await it.validation.find(7, None)
        it.stub.fault = None
        with pytest.raises(RegistryError, match="status 500"):
            await it.validation.find(7, None)
        assert len(it.stub.asked) == 1
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
            f"cannot look up schema ids: {it.stub.url}: the registry answered with status 500"
        ]


async def test_a_registry_that_is_back_is_noticed_without_a_wait(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with desk() as it:
        it.stub.subjects = {7: ["t-value"], 8: ["t-value"]}
        it.stub.fault = (500, b"")
        with pytest.raises(RegistryError):
            await it.validation.find(7, None)
        it.stub.fault = None
        it.stub.may_answer.clear()
        it.clock.time_ms += SCHEMA_REGISTRY_REST_MS
        for number in (7, 8, 7):  # the first asks again; none waits for the answer
            with pytest.raises(RegistryError, match="status 500"):
                await it.validation.find(number, None)
        await it.stub.wait_asked(2)
        it.stub.may_answer.set()
        await until_known(it, 7)
        assert it.stub.asked == ["/schemas/ids/7/subjects"] * 2
        assert await it.validation.find(8, "t-value")
        assert "the schema registry answers again" in logged(caplog)


async def until_known(it: Desk, schema_id: int) -> None:
    async with asyncio.timeout(60):
        while it.validation.known(schema_id, None) is None:
            await asyncio.sleep(0)


async def test_lookups_that_wait_behind_a_failure_fail_with_it() -> None:
    async with desk() as it:
        it.stub.fault = (503, b"")
        finds = [it.validation.find(number, None) for number in (1, 2, 3)]
        outcomes = await asyncio.gather(*finds, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [RegistryError] * 3
        assert len(it.stub.asked) == 1


async def test_a_lookup_goes_on_without_the_request_that_began_it() -> None:
    async with desk() as it:
        it.stub.subjects = {7: ["t-value"]}
        it.stub.may_answer.clear()
        find = asyncio.create_task(it.validation.find(7, None))
        await it.stub.wait_asked(1)
        find.cancel()
        it.stub.may_answer.set()
        await until_known(it, 7)


async def test_a_stop_does_not_wait_for_the_registry() -> None:
    async with desk() as it:
        it.stub.may_answer.clear()
        find = asyncio.create_task(it.validation.find(7, None))
        await it.stub.wait_asked(1)
        await it.validation.stop()
        with pytest.raises(asyncio.CancelledError):
            await find


async def test_a_broker_without_a_registry_says_so() -> None:
    validation = SchemaValidation(BrokerConfig(), ManualClock(), Registry())
    with pytest.raises(RegistryError, match=r"confluent.schema.registry.url is not set"):
        await validation.find(7, None)
    await validation.stop()
