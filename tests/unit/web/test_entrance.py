"""The doors that the options of a service choose."""

import pytest
from tests.logged import logged

from tailrace.web.caller import Refusal
from tailrace.web.door import Door
from tailrace.web.entrance import make_door, warn_of_exposure


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
    ("users", "host", "scheme", "warning"),
    [
        ({"ann": "secret"}, "0.0.0.0", "http", "without encryption"),
        ({"ann": "secret"}, "registry.example", "http", "without encryption"),
        ({"ann": "secret"}, "0.0.0.0", "https", ""),
        ({"ann": "secret"}, "127.0.0.1", "http", ""),
        ({"ann": "secret"}, "::1", "http", ""),
        ({"ann": "secret"}, "localhost", "http", ""),
        (None, "0.0.0.0", "http", "every client that can reach 0.0.0.0 may do everything"),
        (None, "::", "https", "every client that can reach :: may do everything"),
        (None, "127.0.0.1", "http", ""),
    ],
)
def test_what_other_machines_could_do_is_warned_of(
    users: dict[str, str] | None, host: str, scheme: str, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A service that admits every client said nothing, also if other machines could reach it."""
    door: Door = make_door(users, None, "registry")
    warn_of_exposure(door, host, scheme)
    assert warning in logged(caplog)
    assert len(caplog.records) == bool(warning)
