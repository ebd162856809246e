"""Tidy tests without garbage collection: syntax trees have millions of nodes and no cycles, and are kept."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.freeze()  # else every later search for garbage would go through the trees
    gc.enable()
