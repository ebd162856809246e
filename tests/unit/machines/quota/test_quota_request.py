"""The entities, quotas and filters of requests, with Kafka's codes and messages."""

import math

import pytest

from tailrace.machines.controller.record import ConfigKind
from tailrace.machines.quota.entity import DEFAULT, QuotaEntity, requested_entity, stored_entity
from tailrace.machines.quota.filter import read_filter
from tailrace.machines.quota.key import check_address, check_quota, read_quota
from tailrace.protocol.errors import ApiError, ErrorCode

EXACT, ANY = 0, 2


@pytest.mark.parametrize(
    ("entity", "kind", "name"),
    [
        (QuotaEntity("al/ice"), ConfigKind.USER, "al%2Fice"),
        (QuotaEntity(DEFAULT), ConfigKind.USER, "<default>"),
        (QuotaEntity("<default>"), ConfigKind.USER, "%3Cdefault%3E"),
        (QuotaEntity(client_id="c"), ConfigKind.CLIENT, "c"),
        (QuotaEntity("u", DEFAULT), ConfigKind.USER_CLIENT, "u/<default>"),
        (QuotaEntity(ip="::1"), ConfigKind.IP, "%3A%3A1"),
    ],
)
def test_an_entity_and_where_it_is_stored(entity: QuotaEntity, kind: ConfigKind, name: str) -> None:
    assert entity.place == (kind, name)
    assert stored_entity(kind, name) == entity


def test_the_entity_of_a_request() -> None:
    assert requested_entity({"user": "u", "client-id": None}) == QuotaEntity("u", DEFAULT)
    assert requested_entity({"ip": None}) == QuotaEntity(ip=DEFAULT)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"foo": "x"}, "Unhandled client quota entity type: foo"),
        ({"user": ""}, "Empty user not supported"),
        (
            {"user": "u", "ip": "::1"},
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
    ],
)
def test_entities_that_are_none(parts: dict[str, str | None], message: str) -> None:
    with pytest.raises(ApiError) as caught:
        requested_entity(parts)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_an_address_is_no_name() -> None:
    check_address(QuotaEntity(ip="10.0.0.1"))
    check_address(QuotaEntity(ip=DEFAULT))
    with pytest.raises(ApiError, match=r"a\.b is not a valid IP or resolvable host\."):
        check_address(QuotaEntity(ip="a.b"))


@pytest.mark.parametrize(
    ("entity", "name", "value", "text"),
    [
        (QuotaEntity("u"), "producer_byte_rate", 1024.0, "1024"),
        (QuotaEntity("u"), "consumer_byte_rate", 2.0**63, str(2**63)),
        (QuotaEntity("u"), "request_percentage", 12.5, "12.5"),
        (QuotaEntity(client_id=DEFAULT), "controller_mutation_rate", 0.1, "0.1"),
        (QuotaEntity(ip=DEFAULT), "connection_creation_rate", 7.0, "7"),
    ],
)
def test_the_text_of_a_quota(entity: QuotaEntity, name: str, value: float, text: str) -> None:
    assert check_quota(entity, name, value) == text
    assert read_quota(text) == value


@pytest.mark.parametrize(
    ("entity", "name", "value", "message"),
    [
        (QuotaEntity("u"), "foo", 1.0, "Invalid configuration key foo"),
        (QuotaEntity("u"), "SCRAM-SHA-256", 1.0, "Invalid configuration key SCRAM-SHA-256"),
        (QuotaEntity("u"), "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        (QuotaEntity(ip="::1"), "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        (QuotaEntity("u"), "producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        (QuotaEntity("u"), "request_percentage", -1.0, "Quota request_percentage must be greater than 0"),
        (QuotaEntity("u"), "request_percentage", math.nan, "Quota request_percentage must be greater than 0"),
        (QuotaEntity("u"), "request_percentage", math.inf, "Quota request_percentage must be finite"),
        (QuotaEntity("u"), "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (
            QuotaEntity("u"),
            "producer_byte_rate",
            1e19,
            "Proposed value for producer_byte_rate is too large for a LONG.",
        ),
        (
            QuotaEntity(ip="::1"),
            "connection_creation_rate",
            3e9,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_quotas_that_are_refused(entity: QuotaEntity, name: str, value: float, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_quota(entity, name, value)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)


ALICE, ALICE_APP, EVERY_USER, APP, HOST = (
    QuotaEntity("alice"),
    QuotaEntity("alice", "app"),
    QuotaEntity(DEFAULT),
    QuotaEntity(None, "app"),
    QuotaEntity(ip="::1"),
)


@pytest.mark.parametrize(
    ("components", "is_strict", "found"),
    [
        ([], False, [ALICE, ALICE_APP, EVERY_USER, APP, HOST]),
        ([], True, []),
        ([("user", ANY, None)], False, [ALICE, ALICE_APP, EVERY_USER]),
        ([("user", ANY, None)], True, [ALICE, EVERY_USER]),
        ([("user", EXACT, "alice")], False, [ALICE, ALICE_APP]),
        ([("user", 1, None)], False, [EVERY_USER]),
        ([("user", EXACT, "alice"), ("client-id", ANY, None)], True, [ALICE_APP]),
        ([("ip", ANY, None)], True, [HOST]),
        ([("user", EXACT, "bob")], False, []),
    ],
)
def test_filters(components: list[tuple[str, int, str | None]], is_strict: bool, found: list[QuotaEntity]) -> None:
    wanted = read_filter(components, is_strict=is_strict)
    assert [entity for entity in (ALICE, ALICE_APP, EVERY_USER, APP, HOST) if wanted.matches(entity)] == found


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        (
            [("user", ANY, None)] * 2,
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("foo", ANY, None)], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type foo"),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 7"),
        (
            [("user", EXACT, None)],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", 1, "x")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", ANY, "x")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        (
            [("user", ANY, None), ("ip", ANY, None)],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        ),
    ],
)
def test_filters_that_are_refused(components: list[tuple[str, int, str | None]], code: ErrorCode, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_filter(components, is_strict=False)
    assert (caught.value.code, caught.value.message) == (code, message)
