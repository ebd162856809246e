"""Delegation tokens through the client, and logins with them."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.delegation_token.secured import holder_config, secured_broker, user_config
from tests.unit.client.face import Blocking

import tailrace
from tailrace.protocol.errors import ApiError, ErrorCode

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with secured_broker() as started:
        yield started


def admin(address: str, config: dict[str, str]) -> Any:
    return tailrace.Admin(address, config=config)


def refusal(call: Any, *arguments: Any, **options: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call(*arguments, **options)
    assert caught.value.message
    return caught.value.code


@pytest.mark.parametrize("face", [tailrace.Admin, partial(Blocking, tailrace.aio.Admin)], ids=["sync", "aio"])
def test_a_token_is_created_used_renewed_and_expired(address: str, face: Any) -> None:
    with face(address, config=user_config("owner")) as owner:
        token = owner.create_delegation_token(renewers=["User:renewer"])
        assert (token.owner, token.requester, token.renewers) == ("User:owner", "User:owner", ("User:renewer",))
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == HOUR_MS
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 2 * HOUR_MS
        assert token.hmac not in repr(token)
        assert token in owner.describe_delegation_tokens(["User:owner"])
        renewed_ms = owner.renew_delegation_token(token.hmac, renew_period_ms=HOUR_MS // 2)
        assert renewed_ms < token.expiry_timestamp_ms
        with admin(address, user_config("renewer")) as renewer:
            assert token.token_id in [each.token_id for each in renewer.describe_delegation_tokens()]
            assert renewer.renew_delegation_token(token.hmac) > renewed_ms
        with admin(address, holder_config(token.token_id, token.hmac)) as holder:
            holder.list_topics()
            not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert refusal(holder.create_delegation_token) is not_allowed
            assert refusal(holder.describe_delegation_tokens) is not_allowed
        assert owner.expire_delegation_token(token.hmac, expiry_period_ms=1000) < renewed_ms
        owner.expire_delegation_token(token.hmac)
        assert token.token_id not in [each.token_id for each in owner.describe_delegation_tokens()]
        assert refusal(owner.renew_delegation_token, token.hmac) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    with pytest.raises(
        tailrace.AuthenticationError, match=f"the HMAC of delegation token {token.token_id}, and that it"
    ):
        with admin(address, holder_config(token.token_id, token.hmac)) as holder:
            holder.list_topics()


def test_a_token_for_another_user(address: str) -> None:
    with admin(address, user_config("creator")) as creator:
        token = creator.create_delegation_token(owner="User:owner", max_lifetime_ms=60_000)
        assert (token.owner, token.requester) == ("User:owner", "User:creator")
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 60_000
        assert refusal(creator.expire_delegation_token, token.hmac) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        group = refusal(creator.create_delegation_token, renewers=["Group:readers"])
        assert group is ErrorCode.INVALID_PRINCIPAL_TYPE
    with admin(address, user_config("stranger")) as stranger:
        failed = refusal(stranger.create_delegation_token, owner="User:owner")
        assert failed is ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert stranger.describe_delegation_tokens() == []


def test_what_is_no_principal_and_no_hmac_is_not_sent(address: str) -> None:
    with admin(address, user_config("owner")) as owner:
        with pytest.raises(ValueError, match="'alice' is not a principal such as User:alice"):
            owner.create_delegation_token(renewers=["alice"])
        with pytest.raises(ValueError, match="must be base64"):
            owner.renew_delegation_token("not base64!")


def test_brokers_without_a_key_say_what_is_missing() -> None:
    with secured_broker(has_key=False) as address, admin(address, user_config("owner")) as owner:
        with pytest.raises(ApiError, match=r"set delegation\.token\.secret\.key"):
            owner.create_delegation_token()
