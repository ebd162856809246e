"""What failed is raised, however cleaning up after it goes."""

import asyncio

import pytest

from runnel.base.undo import undone_by


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
