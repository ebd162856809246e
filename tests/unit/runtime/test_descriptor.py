"""Descriptors are shared out between segments and connections."""

import resource

import pytest

from tailrace.base.limits import RESERVED_DESCRIPTORS, SEGMENT_DESCRIPTORS_MAX
from tailrace.runtime.descriptor import share, share_descriptors


def test_the_limit_is_raised_and_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    assert sum(share_descriptors()) == 4096 - RESERVED_DESCRIPTORS
    limits[:] = [(50, 50)]
    assert share_descriptors() == (1, 1)


def test_a_system_that_states_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinity is -1 in some systems, and others refuse it as the limit that they themselves state."""

    def refuse(_: int, new: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    infinity = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, infinity))
    assert sum(share_descriptors()) == 1024 - RESERVED_DESCRIPTORS
    monkeypatch.setattr(resource, "getrlimit", lambda _: (infinity, infinity))
    assert share_descriptors().connection_count_max > 10**9


def test_segments_get_half_until_they_have_enough() -> None:
    assert share(400) == (150, 150)
    assert share(1_048_576) == (SEGMENT_DESCRIPTORS_MAX, 1_048_576 - RESERVED_DESCRIPTORS - SEGMENT_DESCRIPTORS_MAX)
