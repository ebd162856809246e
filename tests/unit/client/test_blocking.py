"""The clients for ordinary code are derived from the asyncio ones."""

import asyncio
import inspect
from collections.abc import AsyncGenerator

import pytest

import tailrace
from tailrace.client.blocking import blocking, iterate_in_caller, run_in_caller

OF_ONE_FACE = {"send_and_wait"}
"""A convenience that ordinary code has as `send(...).result()`."""


@pytest.mark.parametrize("name", tailrace.aio.__all__)
def test_both_faces_offer_the_same(name: str) -> None:
    sync, aio = getattr(tailrace, name), getattr(tailrace.aio, name)
    assert _public(sync) | OF_ONE_FACE == _public(aio) | OF_ONE_FACE


@pytest.mark.parametrize("name", tailrace.aio.__all__)
def test_a_derived_method_shows_the_parameters_and_the_docstring(name: str) -> None:
    sync, aio = getattr(tailrace, name), getattr(tailrace.aio, name)
    for method in sorted(_public(sync)):
        assert inspect.getdoc(getattr(sync, method))
        if hasattr(getattr(sync, method), "__wrapped__") and method != "transaction":
            assert inspect.signature(getattr(sync, method)) == inspect.signature(getattr(aio, method))
            assert not inspect.iscoroutinefunction(getattr(sync, method))


def _public(client: type) -> set[str]:
    return {name for name in dir(client) if not name.startswith("_")}


def test_a_derived_method_runs_the_coroutine_of_the_other_face() -> None:
    class Aio:
        async def double(self, number: int, *, plus: int = 0) -> int:
            """Double a number."""
            return 2 * number + plus

    class Sync:
        _aio = Aio()
        _run = staticmethod(run_in_caller)
        double = blocking(Aio.double)

    assert Sync().double(3, plus=1) == 7
    assert Sync.double.__doc__ == "Double a number."


def test_a_coroutine_that_would_wait_for_a_loop_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="must not wait for an event loop"):
        run_in_caller(wait())


def test_an_iteration_that_is_left_closes_its_generator() -> None:
    ended = []

    async def count() -> AsyncGenerator[int, None]:
        try:
            for number in range(3):
                yield number
        finally:
            ended.append(True)

    assert list(iterate_in_caller(count())) == [0, 1, 2]
    assert ended == [True]
    numbers = iterate_in_caller(count())
    assert next(numbers) == 0
    numbers.close()
    assert ended == [True, True]
