"""Cleanup after a failure: the first error is raised, and steps are undone last step first."""

import asyncio

import pytest

from tailrace.base.undo import undone_by, undone_on_failure


class Bench:
    """Counts how often it was cleaned up."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.count = 0
        self._error = error

    async def undo(self) -> None:
        self.count += 1
        if self._error is not None:
            raise self._error


async def test_a_block_that_succeeds_is_not_undone() -> None:
    bench = Bench()
    async with undone_by(bench.undo):
        pass
    assert bench.count == 0


@pytest.mark.parametrize("error", [OSError("the cause"), asyncio.CancelledError("the cause")])
async def test_the_error_of_the_block_is_raised(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ValueError("a consequence"))
    with pytest.raises(type(error), match="the cause"):
        async with undone_by(bench.undo):
            raise error
    assert bench.count == 1
    (record,) = caplog.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a consequence"


async def test_steps_are_undone_in_reverse_order_only_if_the_block_fails() -> None:
    undone: list[str] = []
    async with undone_on_failure() as steps:
        for name in ("first", "second"):
            steps.callback(undone.append, name)
    assert undone == []
    await steps.aclose()
    assert undone == ["second", "first"]
    await steps.aclose()
    assert undone == ["second", "first"]


async def test_a_step_that_fails_does_not_keep_the_others_from_being_undone() -> None:
    undone: list[str] = []
    bench = Bench(ValueError("a consequence"))

    async def fail_after_three_steps() -> None:
        async with undone_on_failure() as steps:
            steps.callback(undone.append, "first")
            steps.push_async_callback(bench.undo)
            steps.callback(undone.append, "third")
            raise OSError("the cause")

    with pytest.raises(OSError, match="the cause"):
        await fail_after_three_steps()
    assert undone == ["third", "first"]
    assert bench.count == 1
