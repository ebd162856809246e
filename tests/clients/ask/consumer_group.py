"""Groups of the new protocol (KIP-848): who may join, what members are told, and what is shown of them.

kafka-python has no words for these requests, so they are written with Tailrace's own codec, which other tests hold
to independent encoders.
"""

from __future__ import annotations

import uuid
from typing import Any, TypeVar, cast

from tests.clients.ask.asker import Asker, question
from tests.clients.ask.group import NOT_YET, join, new_group
from tests.eventual import eventually

from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.config import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

GROUP_RESOURCE = 32
M = TypeVar("M", bound=Message)


def send(asker: Asker, request: Message, answer: type[M], version: int = 1) -> M:
    """One request on a connection of its own, in our own encoding."""
    with asker.wire() as wire:
        wire.send(b"".join(encode_request(1, "ask", request, version)))
        received = wire.receive()
    assert isinstance(received, bytes), received
    return decode_response(answer, received, version)[1]


def beat(asker: Asker, group: str, member: str, epoch: int, version: int = 1, **fields: Any) -> Any:
    """A heartbeat, asked again while the coordinator is not there yet."""
    owned = fields.pop("owned", None)
    if owned is not None:
        fields["topic_partitions"] = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in owned.items()
        ]
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
    return eventually(
        lambda: send(asker, request, ConsumerGroupHeartbeatResponse, version),
        lambda reply: reply.error_code not in NOT_YET,
    )


def enter(asker: Asker, group: str, member: str, *topics: str, version: int = 1, **fields: Any) -> Any:
    """The first heartbeat of a member."""
    said = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(topics), "owned": {}}
    return beat(asker, group, member, 0, version, **(said | fields))


def told(reply: Any) -> list[Any]:
    """What a reply says: its error, or the epoch and the partitions of each topic if it names any."""
    if reply.error_code:
        return [reply.error_code, reply.error_message]
    given = None if reply.assignment is None else [topic.partitions for topic in reply.assignment.topic_partitions]
    return [reply.member_epoch, given]


def describe(asker: Asker, group: str) -> Any:
    """ConsumerGroupDescribe of one group."""
    return send(asker, ConsumerGroupDescribeRequest(group_ids=[group]), ConsumerGroupDescribeResponse).groups[0]


def _topic_id(asker: Asker, topic: str) -> uuid.UUID:
    (found,) = asker.fields("Metadata", 12, topics=[{"topic_id": uuid.UUID(int=0), "name": topic}])["topics"]
    return cast("uuid.UUID", found["topic_id"])


@question
def one_member(asker: Asker) -> Any:
    """A member joins, sends a heartbeat, joins again, leaves, and sends another: what is each told?"""
    group, topic = new_group(asker), asker.topic(partitions=3)
    first = enter(asker, group, "m", topic)
    return {
        "joins": told(first),
        "interval": first.heartbeat_interval_ms,
        "its id": first.member_id,
        "heartbeat": told(beat(asker, group, "m", first.member_epoch)),
        "everything said again": told(
            beat(
                asker,
                group,
                "m",
                first.member_epoch,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[topic],
                owned={},
            )
        ),
        "joins again": told(enter(asker, group, "m", topic)),
        "leaves": told(beat(asker, group, "m", -1)),
        "then": told(beat(asker, group, "m", first.member_epoch))[0],
    }


@question
def an_id_from_the_coordinator(asker: Asker) -> Any:
    """How long is the id that a member of version 0 without one gets, and may it be missing in version 1?"""
    group, topic = new_group(asker), asker.topic()
    made = enter(asker, group, "", topic, version=0).member_id
    return {"length": len(made), "version 1": told(enter(asker, group, "", topic))}


@question
def senseless(asker: Asker) -> Any:
    """What is refused before any group is looked at, and in which words?"""
    group, topic = new_group(asker), asker.topic()
    joins = {"rebalance_timeout_ms": 1, "subscribed_topic_names": [topic]}
    cases: dict[str, tuple[str, str, int, dict[str, Any]]] = {
        "no partitions named": (group, "m", 0, joins),
        "partitions named": (group, "m", 0, {**joins, "owned": {uuid.UUID(int=1): [0]}}),
        "no rebalance timeout": (group, "m", 0, {"subscribed_topic_names": [topic], "owned": {}}),
        "no subscription": (group, "m", 0, {"rebalance_timeout_ms": 1, "owned": {}}),
        "empty instance": (group, "m", 1, {"instance_id": ""}),
        "blank rack": (group, "m", 1, {"rack_id": " "}),
        "epoch -3": (group, "m", -3, {}),
        "epoch -2 of nobody static": (group, "m", -2, {}),
        "no member": (group, "", 1, {}),
        "no group": ("", "m", 1, {}),
        "assignor": (group, "m", 0, {**joins, "owned": {}, "server_assignor": "sticky"}),
        "a group that is not there": (group, "m", 1, {}),
        "leaving a group that is not there": (group, "m", -1, {}),
    }
    found = {
        name: told(beat(asker, to, member, epoch, **fields)) for name, (to, member, epoch, fields) in cases.items()
    }
    return {name: [code, (text or "").replace(group, "GROUP")] for name, (code, text) in found.items()}


@question
def fenced(asker: Asker) -> Any:
    """Which epochs are fenced, and which are taken?"""
    group, topic = new_group(asker), asker.topic(partitions=2)
    epoch = enter(asker, group, "m", topic).member_epoch
    return {
        "the next": told(beat(asker, group, "m", epoch + 1))[0],
        "the one before": told(beat(asker, group, "m", epoch - 1))[0],
        "unknown member": told(beat(asker, group, "n", epoch))[0],
        "unknown instance": told(beat(asker, group, "n", epoch, instance_id="i"))[0],
        "a regular expression": told(enter(asker, group, "r", subscribed_topic_names=None, subscribed_topic_regex="("))[
            0
        ],
        "lookahead": told(enter(asker, group, "r", subscribed_topic_names=None, subscribed_topic_regex="(?=x)"))[0],
    }


@question
def static_members(asker: Asker) -> Any:
    """A static member is doubled, leaves for a while, comes back under another id, and its old id speaks."""
    group, topic = new_group(asker), asker.topic(partitions=2)
    first = enter(asker, group, "a", topic, instance_id="i")
    doubled = told(enter(asker, group, "b", topic, instance_id="i"))
    left = told(beat(asker, group, "a", -2, instance_id="i"))
    back = enter(asker, group, "c", topic, instance_id="i")
    return {
        "joins": told(first),
        "doubled": doubled,
        "leaves": left,
        "comes back": told(back),
        "the old id": told(beat(asker, group, "a", first.member_epoch, instance_id="i"))[0],
        "without its instance": told(beat(asker, group, "c", back.member_epoch)),
        "for good": told(beat(asker, group, "c", -1, instance_id="i")),
    }


@question
def two_members(asker: Asker) -> Any:
    """A second member comes once a new division is due: what are both told until each has its half?"""
    group, topic = new_group(asker), asker.topic(partitions=4)
    topic_id = _topic_id(asker, topic)
    steps = [told(enter(asker, group, "a", topic))]
    second = eventually(lambda: enter(asker, group, "b", topic), lambda reply: reply.member_epoch == 3)
    steps.append(told(second))
    mine = beat(asker, group, "a", 2)
    steps.append([mine.member_epoch, len(told(mine)[1][0])])
    kept = told(mine)[1][0]
    steps.append(told(beat(asker, group, "a", 2)))
    steps.append(told(beat(asker, group, "a", 2, owned={topic_id: [0, 1, 2, 3]})))
    steps.append(told(beat(asker, group, "a", 2, owned={topic_id: kept})))
    theirs = told(beat(asker, group, "b", 3))
    steps.append([theirs[0], sorted(theirs[1][0] + kept)])
    return steps


@question
def ranges(asker: Asker) -> Any:
    """How does `range` cut five partitions for two static members and one that is not?"""
    group, topic = new_group(asker), asker.topic(partitions=5)
    names = {"a": None, "z": "i1", "m": "i2"}
    for member, instance in names.items():
        enter(asker, group, member, topic, instance_id=instance, server_assignor="range")

    def targets() -> Any:
        for member, instance in names.items():
            beat(asker, group, member, 0, instance_id=instance, **_all(topic)) if instance is None else None
        return {
            member.member_id: [topic.partitions for topic in member.target_assignment.topic_partitions]
            for member in describe(asker, group).members
        }

    return eventually(
        targets, lambda found: sum(len(share[0]) for share in found.values() if share) == 5 and all(found.values())
    )


def _all(topic: str) -> dict[str, Any]:
    return {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic], "owned": {}}


@question
def described(asker: Asker) -> Any:
    """What does ConsumerGroupDescribe show of a group with one member, and of what is none?"""
    group, topic = new_group(asker), asker.topic(partitions=2)
    enter(asker, group, "m", topic, instance_id="i", rack_id="r", server_assignor="range")
    found = describe(asker, group)
    (member,) = found.members
    unknown = describe(asker, f"{group}-x")
    return {
        "group": [found.error_code, found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name],
        "member": [member.member_id, member.instance_id, member.rack_id, member.member_epoch, member.client_id],
        "host": member.client_host,
        "names": len(member.subscribed_topic_names),
        "regex": member.subscribed_topic_regex,
        "type": member.member_type,
        "partitions": [one.partitions for one in member.assignment.topic_partitions],
        "target": [one.partitions for one in member.target_assignment.topic_partitions],
        "unknown": [unknown.error_code, (unknown.error_message or "").replace(group, "GROUP")],
        "nameless": describe(asker, "").error_code,
    }


@question
def a_classic_member(asker: Asker) -> Any:
    """What is a classic member told that joins a group of the new protocol?"""
    group, topic = new_group(asker), asker.topic(partitions=2)
    enter(asker, group, "m", topic)
    subscription = b"\0\0" + b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff"
    good = [{"name": "range", "metadata": subscription}]
    asked = join(asker, group, protocols=good)
    joined = join(asker, group, asked["member_id"], protocols=good)
    return {
        "first": asked["error_code"],
        "bytes of no meaning": join(asker, group, "x", protocols=[{"name": "range", "metadata": b"?"}])["error_code"],
        "another type": join(asker, group, "x", protocol_type="connect", protocols=good)["error_code"],
        "joins": [joined["error_code"], joined["protocol_name"], joined["leader"], joined["members"]],
        "types": sorted(member.member_type for member in describe(asker, group).members),
    }


@question
def group_options(asker: Asker) -> Any:
    """Which options has a group, with which sources, and which values are refused?"""
    group = new_group(asker)

    def change(name: str, value: str) -> int:
        config = IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=GROUP_RESOURCE, resource_name=group, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        return int(send(asker, request, IncrementalAlterConfigsResponse).responses[0].error_code)

    def options(name: str) -> Any:
        asked = DescribeConfigsRequestResource(
            resource_type=GROUP_RESOURCE, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[asked])
        (result,) = send(asker, request, DescribeConfigsResponse, 4).results
        consumer = [one for one in result.configs if one.name.startswith("consumer.")]
        return [result.error_code, sorted([one.name, one.value, one.config_source, one.read_only] for one in consumer)]

    return {
        "before": options(group),
        "too short": change("consumer.session.timeout.ms", "1000"),
        "too long": change("consumer.heartbeat.interval.ms", "16000"),
        "no number": change("consumer.session.timeout.ms", "soon"),
        "unknown": change("consumer.nothing", "1"),
        "fine": change("consumer.session.timeout.ms", "50000"),
        "after": eventually(lambda: options(group), lambda found: "50000" in str(found)),
        "nameless": options("")[0],
    }
