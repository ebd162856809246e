"""`tailrace token`: create, renew, expire and describe delegation tokens."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.delegation_token.secured import holder_config, secured_broker, user_config

Run = Callable[..., tuple[int, str, str]]
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with secured_broker() as started:
        yield started


@pytest.fixture
def call(run: Run, address: str, tmp_path: Path) -> Run:
    """Run a command as a user; the first argument has the configs of the client."""

    def run_as(config: dict[str, str], *arguments: str) -> tuple[int, str, str]:
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        return run(*arguments, "--bootstrap-server", address, "--command-config", str(file))

    return run_as


OWNER = user_config("owner")


def test_a_token_from_its_creation_to_its_end(call: Run) -> None:
    status, output, error = call(OWNER, "token", "create", "--renewer-principal", "User:renewer", "--json")
    assert (status, error) == (0, "")
    created = json.loads(output)
    token_id, hmac = created["tokenId"], created.pop("hmac")
    assert (created["owner"], created["renewers"]) == ("User:owner", ["User:renewer"])
    assert created["maxTimestampMs"] - created["issueTimestampMs"] == 2 * HOUR_MS
    # The HMAC is printed once.
    status, output, _ = call(OWNER, "token", "describe", "--owner-principal", "User:owner", "--json")
    assert (status, created in json.loads(output), hmac in output) == (0, True, False)
    listed = call(user_config("renewer"), "token", "describe")[1]
    assert re.search(rf"^{token_id}\tUser:owner\tUser:owner\tUser:renewer\t\S+\t\S+\t\S+$", listed, re.MULTILINE)
    # A job logs in with it, and cannot make others.
    holder = holder_config(token_id, hmac)
    assert call(holder, "topic", "list")[0] == 0
    status, _, error = call(holder, "token", "create")
    assert (status, error.count("\n")) == (1, 1)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: only a client that has logged in" in error
    renewed = call(user_config("renewer"), "token", "renew", token_id, "--renew-time-period", "60000", "--json")
    assert json.loads(renewed[1])["expiryTimestampMs"] < created["expiryTimestampMs"]
    assert call(OWNER, "token", "renew", token_id)[1].startswith(f"token {token_id} expires at 20")
    later = call(OWNER, "token", "expire", token_id, "--expiry-time-period", "60000")
    assert later[1].startswith(f"token {token_id} expires at 20")
    assert call(OWNER, "token", "expire", token_id) == (0, f"token {token_id} is removed\n", "")
    status, _, error = call(OWNER, "token", "expire", token_id)
    assert (status, f"there is no token {token_id}, or the user who logs in may not see it" in error) == (1, True)
    status, _, error = call(holder, "topic", "list")
    assert (status, "check the id and the HMAC of delegation token" in error) == (1, True)


def test_a_token_for_another_user(call: Run) -> None:
    arguments = ("--owner-principal", "User:owner", "--max-life-time-period", "60000")
    status, output, _ = call(user_config("creator"), "token", "create", *arguments)
    assert status == 0
    assert re.fullmatch(r"token [\w-]{22} of User:owner expires at \S+\nhmac [\w+/=]{88}\n", output)
    status, _, error = call(user_config("stranger"), "token", "create", *arguments)
    assert (status, "needs the right create_tokens on that user" in error) == (1, True)


@pytest.mark.parametrize("option", ["--owner-principal", "--renewer-principal"])
def test_what_is_no_principal_is_a_wrong_call(run: Run, option: str) -> None:
    status, _, error = run("token", "create", option, "alice")
    assert (status, "'alice' is not a principal such as User:alice" in error) == (2, True)


def test_a_listener_without_a_login_gives_no_tokens(run: Run) -> None:
    status, output, error = run("token", "create")
    assert (status, output) == (1, "")
    assert "only a client that has logged in, and not with a delegation token" in error
