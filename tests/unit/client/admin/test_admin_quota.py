"""Quotas of clients through the client."""

import uuid
from functools import partial

import pytest
from tests.eventual import eventually

import tailrace
from tailrace.client.admin.quota import QuotaEntity, QuotaName
from tailrace.protocol.errors import ApiError, ErrorCode


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4().hex[:12]}"


def test_quotas_are_set_found_and_removed(bootstrap: str, user: str) -> None:
    alone, with_default = QuotaEntity(user), QuotaEntity(user, QuotaName.DEFAULT)
    with tailrace.Admin(bootstrap) as admin:
        changes = {
            alone: {"producer_byte_rate": 1e9, "request_percentage": 99.5},
            with_default: {"consumer_byte_rate": 1e9},
        }
        assert admin.alter_client_quotas(changes) == {alone: None, with_default: None}
        assert eventually(partial(admin.describe_client_quotas, alone), lambda seen: seen == changes) == changes
        assert admin.describe_client_quotas(QuotaEntity(user), strict=True) == {alone: changes[alone]}
        assert admin.describe_client_quotas(QuotaEntity(user, QuotaName.ANY)) == {with_default: changes[with_default]}
        assert admin.describe_client_quotas(QuotaEntity(user, "other")) == {}
        everything = admin.describe_client_quotas()
        assert {alone, with_default} <= everything.keys()
        removal: dict[QuotaEntity, dict[str, float | None]] = {
            alone: {"producer_byte_rate": None, "request_percentage": None},
            with_default: {"consumer_byte_rate": None},
        }
        assert admin.alter_client_quotas(removal) == {alone: None, with_default: None}
        assert eventually(partial(admin.describe_client_quotas, alone), lambda seen: not seen) == {}


def test_each_entity_has_its_outcome(bootstrap: str, user: str) -> None:
    good, bad = QuotaEntity(user), QuotaEntity(client_id=user)
    with tailrace.Admin(bootstrap) as admin:
        changes = {good: {"producer_byte_rate": 5.0}, bad: {"producer_byte_rate": 0.5}}
        outcomes = admin.alter_client_quotas(changes, validate_only=True)
        assert outcomes[good] is None
        error = outcomes[bad]
        assert isinstance(error, ApiError)
        assert error.code is ErrorCode.INVALID_REQUEST
        assert admin.describe_client_quotas(good) == {}
        with pytest.raises(ApiError):
            admin.describe_client_quotas(QuotaEntity(user, ip="::1"))
        with pytest.raises(ValueError, match="is for searches"):
            admin.alter_client_quotas({QuotaEntity(QuotaName.ANY): {"producer_byte_rate": 5.0}})
