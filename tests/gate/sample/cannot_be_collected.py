"""A file that cannot be imported."""

from tests.gate.sample import no_such_module  # type: ignore[attr-defined]


def test_is_never_seen() -> None:
    assert no_such_module
