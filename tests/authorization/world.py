"""What the requests of the table are about: topics, groups and transactions, made by a super user."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tests.authorization import grant
from tests.authorization.plain import Id, request
from tests.authorization.wire import Wire
from tests.unit.sample import make_batch

PASSWORD = "secret"  # noqa: S105  of users that exist in a test only
ADMIN, OWNER = "admin", "owner"
DEADLINE_S = 60.0
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
_PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
    "delegation.token.secret.key": PASSWORD,
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "true",
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "3600000",
    "transaction.two.phase.commit.enable": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""The configs of the broker that the table needs, besides its addresses and users."""


def properties(grants: Sequence[str], port: int, inner_port: int) -> dict[str, str]:
    """Return the configs of a broker with a user for each set of rights, and its listeners."""
    users = [ADMIN, OWNER, *(_user(number) for number in range(len(grants)))]
    passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    addresses = f"CLIENTS://127.0.0.1:{port},PLAINTEXT://127.0.0.1:{inner_port}"
    return {
        **_PROPERTIES,
        "listener.name.clients.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {passwords};"
        ),
        "listeners": addresses,
    }


def _user(number: int) -> str:
    return f"u{number}"


class World:
    """A broker with its users, and the connections to it."""

    def __init__(self, address: str, grants: Sequence[str]) -> None:
        self._address = address
        self._wires: dict[str, Wire] = {}
        self.ids: dict[str, UUID] = {}
        self.users = {granted: _user(number) for number, granted in enumerate(grants)}

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    def wire(self, user: str) -> Wire:
        """Return the connection of a user."""
        if user not in self._wires:
            self._wires[user] = Wire(self._address, user, PASSWORD)
        return self._wires[user]

    def hang_up(self, user: str) -> None:
        """Forget the connection of a user, which the broker has closed."""
        self._wires.pop(user).close()

    def ask(self, api: str, version: int, fields: Mapping[str, Any], user: str = ADMIN) -> Any:
        """Return the reply to a request of a user."""
        return self.wire(user).ask(request(api, fields, self.ids), version)

    def until(self, is_wrong: Any) -> None:
        """Ask again until a question is answered with 0 or False."""
        deadline = time.monotonic() + DEADLINE_S
        while wrong := is_wrong():
            assert time.monotonic() < deadline, wrong
            time.sleep(0.02)

    # --- preparation

    def prepare(self) -> None:
        """Make all that the cases are about."""
        for name in ("t", "other", "doomed"):
            self.create_topic(name)
        self._create_acls()
        self._produce("t", bytes(make_batch(b"value")))
        self._produce("other", bytes(make_batch(b"value")))
        for group in ("g", "g2"):
            self._commit(group)
        self._begin_transaction("x")
        self._begin_transaction("x2")
        self._join_consumer_group()
        self.until(lambda: self._is_created({"max_lifetime_ms": -1}))

    def create_topic(self, name: str) -> None:
        """Create a topic and wait until it can be used."""
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
        (created,) = self.ask("CreateTopics", 7, {"topics": topics, "timeout_ms": 9000}).topics
        assert created.error_code == 0, created
        self.until(lambda: self._describe(name).topic_id != created.topic_id)  # there may have been one before
        self.wait_for_topic(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        fields = {"topics": [{"name": name}], "timeout_ms": 9000}
        self.until(lambda: self.ask("DeleteTopics", 6, fields).responses[0].error_code)
        self.until(lambda: self._describe(name).error_code != 3)
        self.ids.pop(name, None)

    def wait_for_topic(self, name: str) -> None:
        """Wait until a topic has a leader."""
        self.until(lambda: self._describe(name).error_code or not self._describe(name).partitions)
        self.until(lambda: any(partition.error_code for partition in self._describe(name).partitions))
        self.ids[name] = self._describe(name).topic_id

    def _describe(self, name: str) -> Any:
        fields = {"topics": [{"name": name, "topic_id": Id("")}], "allow_auto_topic_creation": False}
        return self.ask("Metadata", 12, fields).topics[0]

    def _create_acls(self) -> None:
        """Create the ACLs of all users, and wait until they hold."""
        creations = [
            {
                "resource_type": binding.resource,
                "resource_name": binding.name,
                "resource_pattern_type": binding.pattern_type,
                "principal": binding.principal,
                "host": binding.host,
                "operation": binding.operation,
                "permission_type": binding.permission,
            }
            for granted, user in self.users.items()
            for binding in grant.bindings(granted, user)
        ]
        reply = self.ask("CreateAcls", 3, {"creations": creations})
        assert {result.error_code for result in reply.results} == {0}
        everything = {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }
        self.until(
            lambda: (
                sum(len(resource.acls) for resource in self.ask("DescribeAcls", 3, everything).resources)
                < len(creations)
            )
        )

    def _produce(self, topic: str, records: bytes, transactional_id: str | None = None) -> None:
        fields = {
            "acks": -1,
            "timeout_ms": 9000,
            "transactional_id": transactional_id,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
        }
        self.until(lambda: self.ask("Produce", 11, fields).responses[0].partition_responses[0].error_code)

    def _commit(self, group: str) -> None:
        self.until(lambda: self._coordinator(0, group))
        partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        topics = [{"name": name, "partitions": partitions} for name in ("t", "other")]
        self.until(
            lambda: any(
                partition.error_code
                for topic in self.ask("OffsetCommit", 7, {"group_id": group, "topics": topics}).topics
                for partition in topic.partitions
            )
        )

    def _coordinator(self, kind: int, name: str) -> int:
        reply = self.ask("FindCoordinator", 6, {"coordinator_keys": [name], "key_type": kind})
        return int(reply.coordinators[0].error_code)

    def _begin_transaction(self, name: str) -> None:
        """Begin a transaction that no client ends, in two topics."""
        self.until(lambda: self._coordinator(1, name))
        fields = {"transactional_id": name, "transaction_timeout_ms": 900_000}
        self.until(lambda: self.ask("InitProducerId", 4, fields).error_code)
        reply = self.ask("InitProducerId", 4, fields)
        added = {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": reply.producer_id,
            "v3_and_below_producer_epoch": reply.producer_epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [0]} for topic in ("t", "other")],
        }
        self.until(
            lambda: any(
                partition.partition_error_code
                for topic in self.ask("AddPartitionsToTxn", 3, added).results_by_topic_v3_and_below
                for partition in topic.results_by_partition
            )
        )
        producer = (reply.producer_id, reply.producer_epoch, 0)
        self._produce("t", bytes(make_batch(b"value", producer=producer, is_transactional=True)), name)

    def _join_consumer_group(self) -> None:
        """Join the group `c`, and go on until its only member has its partitions."""
        joining = {
            **{"group_id": "c", "member_id": MEMBER, "rebalance_timeout_ms": 900_000},
            **{"subscribed_topic_names": ["t", "other"], "topic_partitions": []},
        }
        self.until(lambda: self.ask("ConsumerGroupHeartbeat", 1, {**joining, "member_epoch": 0}).error_code)
        reply = self.ask("ConsumerGroupHeartbeat", 1, {**joining, "member_epoch": 0})
        deadline = time.monotonic() + DEADLINE_S
        while self._state_of_group() != "Stable":
            assert time.monotonic() < deadline
            owned = [
                {"topic_id": given.topic_id, "partitions": given.partitions}
                for given in (reply.assignment.topic_partitions if reply.assignment else ())
            ]
            fields = {"group_id": "c", "member_id": MEMBER, "member_epoch": reply.member_epoch}
            reply = self.ask("ConsumerGroupHeartbeat", 1, {**fields, "topic_partitions": owned})
            assert reply.error_code == 0, reply

    def _state_of_group(self) -> str:
        return str(self.ask("ConsumerGroupDescribe", 1, {"group_ids": ["c"]}).groups[0].group_state)

    def _is_created(self, fields: Mapping[str, Any]) -> int:
        named = {"owner_principal_type": None, "owner_principal_name": None, **fields}
        return int(self.ask("CreateDelegationToken", 3, named, OWNER).error_code)
