"""ACLs through the client."""

from collections.abc import Iterator

import pytest

import tailrace
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.testing import Broker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[str]:
    with Broker(AUTHORIZER) as broker:
        yield broker.bootstrap_servers


def code_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, ApiError)
    return outcome.code


def test_acls_are_created_described_and_deleted(secured: str, topic: str) -> None:
    alice = tailrace.Acl("topic", topic, "User:alice", "read")
    bob = tailrace.Acl("topic", topic[:4], "User:bob", "describe_configs", "prefixed", "10.0.0.1", "deny")
    with tailrace.Admin(secured) as admin:
        assert admin.create_acls([alice, bob]) == {alice: None, bob: None}
        assert admin.create_acls([alice]) == {alice: None}
        assert admin.describe_acls(tailrace.AclFilter(name=topic)) == [alice]
        assert admin.describe_acls(tailrace.AclFilter(name=topic, pattern_type="match")) == [bob, alice]
        assert {alice, bob} <= set(admin.describe_acls())
        assert admin.describe_acls(tailrace.AclFilter("group", topic)) == []
        denials, all_of_alice = tailrace.AclFilter(permission="deny"), tailrace.AclFilter(principal="User:alice")
        assert admin.delete_acls([denials, all_of_alice]) == {denials: [bob], all_of_alice: [alice]}
        assert admin.describe_acls() == []


def test_an_acl_that_is_not_valid_is_told(secured: str) -> None:
    wrong = tailrace.Acl("topic", "", "User:alice", "read")
    with tailrace.Admin(secured) as admin:
        assert code_of(admin.create_acls([wrong])[wrong]) is ErrorCode.INVALID_REQUEST
        with pytest.raises(ValueError, match="'planet' is not a word for an ACL's resource; there are topic, group, "):
            admin.create_acls([tailrace.Acl("planet", "mars", "User:alice", "read")])


def test_a_broker_without_an_authorizer_says_so(bootstrap: str) -> None:
    acl, selection = tailrace.Acl("topic", "t", "User:alice", "read"), tailrace.AclFilter()
    with tailrace.Admin(bootstrap) as admin:
        assert code_of(admin.create_acls([acl])[acl]) is ErrorCode.SECURITY_DISABLED
        assert code_of(admin.delete_acls([selection])[selection]) is ErrorCode.SECURITY_DISABLED
        with pytest.raises(ApiError, match="SECURITY_DISABLED: No Authorizer is configured on the broker"):
            admin.describe_acls()
