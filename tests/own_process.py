"""Runs a function of a test in a process of its own, because it changes a limit that other tests would feel."""

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def in_own_process(function: Callable[..., None], *arguments: Any) -> None:
    """Call a function of a module in another process, and raise AssertionError with the traceback if it fails."""
    context = multiprocessing.get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(tell, function, arguments))
    process.start()
    tell.close()
    try:
        failure = told.recv()
    except EOFError:
        failure = "the process ended before the function did"
    process.join()
    assert failure is None, failure


def _call(tell: Connection, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    try:
        function(*arguments)
    except BaseException:
        tell.send(traceback.format_exc())
    else:
        tell.send(None)
