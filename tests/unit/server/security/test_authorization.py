"""The authorizer of a broker follows the ACLs of the cluster."""

import pytest
from tests.logged import logged
from tests.unit.sample import BrokerInMemory

from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource
from tailrace.machines.controller.security_record import AclEntry, AclPattern, AclRecord
from tailrace.server.security.authorization import make_authorization

PATTERN = AclPattern(Resource.TOPIC, PatternType.LITERAL, "t")
ALICE_READS = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
BOB_READS = AclEntry("User:bob", "*", Operation.READ, Permission.ALLOW)
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


async def test_without_an_authorizer_there_is_no_authorization() -> None:
    async with BrokerInMemory().running() as broker:
        assert make_authorization(broker) is None


async def test_acls_count_from_their_record_on() -> None:
    machine = BrokerInMemory()
    async with machine.running(authorizer_class_name=STANDARD, super_users="User:root;User:other") as broker:
        await broker.metadata.commit([AclRecord(PATTERN, (ALICE_READS,))])
        authorization = make_authorization(broker)
        assert authorization is not None

        def may_read(user: str, topic: str = "t") -> bool:
            return authorization.is_allowed(f"User:{user}", "127.0.0.1", Operation.READ, Resource.TOPIC, topic)

        assert [may_read("alice"), may_read("bob"), may_read("root"), may_read("alice", "u")] == [
            True,
            False,
            True,
            False,
        ]
        await broker.metadata.commit([AclRecord(PATTERN, (ALICE_READS, BOB_READS))])
        assert [may_read("alice"), may_read("bob")] == [True, True]
        await broker.metadata.commit([AclRecord(PATTERN, (BOB_READS,))])
        assert [may_read("alice"), may_read("bob")] == [False, True]
        somewhere = "User:bob", "127.0.0.1", Operation.READ, Resource.TOPIC
        assert authorization.is_allowed_somewhere(*somewhere)
        await broker.metadata.commit([AclRecord(PATTERN, ())])
        assert not may_read("bob")
        assert not authorization.is_allowed_somewhere(*somewhere)


@pytest.mark.parametrize(("super_users", "is_told"), [("", True), ("User:broker", False)])
async def test_brokers_without_a_right_to_forward_are_told_so(
    super_users: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Users without ACLs may do everything then, and brokers may not forward requests to each other."""
    async with BrokerInMemory().running(
        authorizer_class_name=STANDARD,
        allow_everyone_if_no_acl_found="true",
        super_users=super_users,
        zookeeper_connect="localhost:1",
    ) as broker:
        make_authorization(broker)
        assert ("brokers forward requests to the controller only if an ACL allows them" in logged(caplog)) is is_told


async def test_every_user_may_use_what_has_no_acl_if_an_option_says_so() -> None:
    machine = BrokerInMemory()
    async with machine.running(authorizer_class_name=STANDARD, allow_everyone_if_no_acl_found="true") as broker:
        authorization = make_authorization(broker)
        assert authorization is not None
        assert authorization.is_allowed("User:eve", "127.0.0.1", Operation.READ, Resource.TOPIC, "t")
        assert not authorization.is_granted("User:eve", "127.0.0.1", Operation.READ, Resource.TOPIC, "t")
