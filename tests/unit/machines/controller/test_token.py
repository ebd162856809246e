"""How long delegation tokens live, and who may change that."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.security_record import TokenRecord, TokenRemoved
from tailrace.machines.controller.token import (
    TokenLife,
    TokenParties,
    decide_create_token,
    decide_expire_token,
    decide_renew_token,
    decide_sweep,
    is_expired,
    tokens_of,
)
from tailrace.protocol.errors import ApiError

LIFE = TokenLife(max_lifetime_ms=1000, expiry_time_ms=100)
PARTIES = TokenParties("User:owner", "User:requester", ("User:renewer",))
NOW_MS = 5000
TOKEN = decide_create_token("id", PARTIES, -1, LIFE, NOW_MS)
PERIODS = st.one_of(st.integers(-5, 1500), st.just(2**63 - 1))


@pytest.mark.parametrize(
    ("asked_ms", "expiry_ms", "max_ms"),
    [(-1, 100, 1000), (0, 100, 1000), (500, 100, 500), (50, 50, 50), (2000, 100, 1000)],
)
def test_a_client_may_ask_for_a_shorter_life(asked_ms: int, expiry_ms: int, max_ms: int) -> None:
    token = decide_create_token("id", PARTIES, asked_ms, LIFE, NOW_MS)
    assert token == TokenRecord("id", *PARTIES, NOW_MS, NOW_MS + expiry_ms, NOW_MS + max_ms)


@pytest.mark.parametrize(("period_ms", "expiry_ms"), [(-1, 100), (0, 100), (30, 30), (5000, 100)])
def test_renewing_counts_from_now(period_ms: int, expiry_ms: int) -> None:
    for principal in ("User:owner", "User:renewer"):
        renewed = decide_renew_token(TOKEN, principal, period_ms, LIFE, NOW_MS + 50)
        assert renewed == replace(TOKEN, expiry_timestamp=NOW_MS + 50 + expiry_ms)


@pytest.mark.parametrize("principal", ["User:requester", "User:stranger", "Group:owner"])
def test_only_the_owner_and_the_renewers_change_a_token(principal: str) -> None:
    with pytest.raises(ApiError, match="DELEGATION_TOKEN_OWNER_MISMATCH"):
        decide_renew_token(TOKEN, principal, -1, LIFE, NOW_MS)
    with pytest.raises(ApiError, match="DELEGATION_TOKEN_OWNER_MISMATCH"):
        decide_expire_token(TOKEN, principal, -1, NOW_MS)
    with pytest.raises(ApiError, match="DELEGATION_TOKEN_OWNER_MISMATCH"):
        decide_expire_token(TOKEN, principal, 10, NOW_MS + 101)


def test_an_expired_token_is_not_revived() -> None:
    late_ms = NOW_MS + 101
    assert not is_expired(TOKEN, NOW_MS + 100)
    assert is_expired(TOKEN, late_ms)
    for principal in ("User:owner", "User:stranger"):  # as in Kafka, a stranger is told this first
        with pytest.raises(ApiError, match="DELEGATION_TOKEN_EXPIRED"):
            decide_renew_token(TOKEN, principal, -1, LIFE, late_ms)
    with pytest.raises(ApiError, match="DELEGATION_TOKEN_EXPIRED"):
        decide_expire_token(TOKEN, "User:owner", 10, late_ms)
    assert decide_expire_token(TOKEN, "User:owner", -1, late_ms) == TokenRemoved("id")


def test_a_token_can_expire_sooner_or_later() -> None:
    assert decide_expire_token(TOKEN, "User:renewer", -1, NOW_MS) == TokenRemoved("id")
    assert decide_expire_token(TOKEN, "User:owner", 0, NOW_MS + 7) == replace(TOKEN, expiry_timestamp=NOW_MS + 7)
    assert decide_expire_token(TOKEN, "User:owner", 400, NOW_MS) == replace(TOKEN, expiry_timestamp=NOW_MS + 400)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(steps=st.lists(st.tuples(st.sampled_from(["renew", "expire"]), PERIODS, st.integers(0, 60)), max_size=30))
def test_no_sequence_of_changes_exceeds_the_maximum(steps: list[tuple[str, int, int]]) -> None:
    token, now_ms = TOKEN, NOW_MS
    for step, period_ms, passed_ms in steps:
        now_ms += passed_ms
        if is_expired(token, now_ms):
            return
        if step == "renew":
            token = decide_renew_token(token, "User:owner", period_ms, LIFE, now_ms)
        else:
            changed = decide_expire_token(token, "User:owner", period_ms, now_ms)
            if isinstance(changed, TokenRemoved):
                return
            token = changed
        assert now_ms <= token.expiry_timestamp <= token.max_timestamp == TOKEN.max_timestamp


def test_expired_tokens_are_swept_in_steps() -> None:
    image = ClusterImage()
    for number in range(5):
        image.replay(replace(TOKEN, token_id=str(number), expiry_timestamp=NOW_MS + number))
    assert decide_sweep(image, NOW_MS, 10) == []
    assert decide_sweep(image, NOW_MS + 3, 10) == [TokenRemoved("0"), TokenRemoved("1"), TokenRemoved("2")]
    assert len(decide_sweep(image, NOW_MS + 100, 2)) == 2


def test_tokens_are_found_by_owners_requesters_and_renewers() -> None:
    image = ClusterImage()
    image.replay(TOKEN)
    image.replay(TokenRecord("a", "User:other", "User:requester", (), 1, 2, 3))

    def found(*owners: str) -> list[str]:
        return [token.token_id for token in tokens_of(image, frozenset(owners))]

    assert [token.token_id for token in tokens_of(image, None)] == ["a", "id"]
    assert found() == []
    assert found("User:owner") == found("User:renewer") == ["id"]
    assert found("User:owner", "User:other") == ["a", "id"]
    assert found("User:requester") == ["a", "id"]
