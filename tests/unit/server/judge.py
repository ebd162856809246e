"""Rights that a test decides for the brokers of its own thread. Brokers that other tests keep run in other threads."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tailrace.server.context import RequestContext

Judge = Callable[..., bool]


def judge_here(monkeypatch: pytest.MonkeyPatch, judge: Judge, *names: str) -> None:
    """Replace these methods of a request's context, `is_allowed` if none is named, in the thread of the test."""
    here = threading.get_ident()

    def replaced(original: Judge) -> Judge:
        def decide(*arguments: Any, **options: Any) -> bool:
            return (judge if threading.get_ident() == here else original)(*arguments, **options)

        return decide

    for name in names or ("is_allowed",):
        monkeypatch.setattr(RequestContext, name, replaced(getattr(RequestContext, name)))


def deny_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deny every operation in the thread of the test."""
    judge_here(monkeypatch, lambda *_, **__: False)
