"""The doors that the options of a service choose."""

import pytest
from tests.logged import logged

from tailrace.web.caller import Refusal
from tailrace.web.door import Door
from tailrace.web.entrance import make_door, warn_of_open_passwords


async def test_without_options_every_caller_may_do_everything() -> None:
    door = make_door(None, None, "registry")
    assert (await door.admit("", "10.0.0.1")).is_judged is False
    assert (door.schemes, door.audit) == ((), None)


@pytest.mark.parametrize("header", ["", "Basic YW5uOndyb25n", "Basic Ym9iOnNlY3JldA==", "Bearer a.b.c", "Basic x"])
async def test_users_of_a_file_need_their_password(header: str) -> None:
    door = make_door({"ann": "secret"}, None, "registry")
    assert (await door.admit("Basic YW5uOnNlY3JldA==", "10.0.0.1")).is_judged is False
    with pytest.raises(Refusal) as refusal:
        await door.admit(header, "10.0.0.1")
    assert refusal.value.status == 401


@pytest.mark.parametrize(
    ("users", "host", "scheme", "is_warned"),
    [
        ({"ann": "secret"}, "0.0.0.0", "http", True),
        ({"ann": "secret"}, "registry.example", "http", True),
        ({"ann": "secret"}, "0.0.0.0", "https", False),
        ({"ann": "secret"}, "127.0.0.1", "http", False),
        ({"ann": "secret"}, "::1", "http", False),
        ({"ann": "secret"}, "localhost", "http", False),
        (None, "0.0.0.0", "http", False),
    ],
)
def test_passwords_that_the_network_can_read_are_warned_of(
    users: dict[str, str] | None, host: str, scheme: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    door: Door = make_door(users, None, "registry")
    warn_of_open_passwords(door, host, scheme)
    assert ("without encryption" in logged(caplog)) is is_warned
