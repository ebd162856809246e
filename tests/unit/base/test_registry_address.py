"""The parts of a registry's URL."""

import pytest

from tailrace.base.registry_address import RegistryAddress


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://localhost:8081", (False, "localhost:8081", "localhost", 8081, "")),
        ("https://one.example/registry/", (True, "one.example", "one.example", 443, "/registry")),
        ("http://[::1]", (False, "[::1]", "::1", 80, "")),
    ],
)
def test_the_parts_of_a_url(url: str, parts: tuple[bool, str, str, int, str]) -> None:
    assert RegistryAddress.of(url) == (url, *parts)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("localhost:8081", "is not the URL of a registry"),
        ("http://", "is not the URL of a registry"),
        ("http://localhost:b", "is not a valid URL"),
        ("http://[::1", "is not a valid URL"),
        ("http://localhost:0", "has the port 0"),
        ("http://ann:secret@localhost", "the URL of 'localhost' contains a user"),
        ("http://ann:secret@localhost:b", "the URL of 'localhost:b' contains a user"),
    ],
)
def test_other_texts_are_refused_with_the_reason(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        RegistryAddress.of(url)
    assert "secret" not in str(caught.value)
