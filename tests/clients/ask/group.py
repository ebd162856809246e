"""Classic groups: who may join, and what members are told."""

from __future__ import annotations

import uuid
from typing import Any

from tests.clients.ask.asker import Asker, question
from tests.eventual import eventually

NOT_YET = {14, 15, 16}  # the topic of groups is being made or loaded


def new_group(asker: Asker) -> str:
    """A name that nobody uses, once its coordinator is there."""
    name = f"ask-{uuid.uuid4().hex[:12]}"
    eventually(
        lambda: asker.fields("FindCoordinator", 1, key=name, key_type=0)["error_code"], lambda code: code not in NOT_YET
    )
    eventually(
        lambda: asker.fields("DescribeGroups", 0, groups=[name])["groups"][0]["error_code"],
        lambda code: code not in NOT_YET,
    )
    return name


def join(asker: Asker, group: str, member_id: str = "", version: int = 5, **changes: Any) -> dict[str, Any]:
    """JoinGroup with one protocol, unless changed."""
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"sub"}],
        **changes,
    }
    if version < 5:
        del fields["group_instance_id"]
    if version < 1:
        del fields["rebalance_timeout_ms"]
    with asker.wire() as wire:
        answer = wire.ask("JoinGroup", version, **fields)
    assert isinstance(answer, dict), answer
    return answer


def sync(asker: Asker, group: str, member_id: str, generation: int, version: int = 3, **changes: Any) -> dict[str, Any]:
    """SyncGroup that gives the member itself `all`."""
    fields = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member_id,
        "assignments": [{"member_id": member_id, "assignment": b"all"}],
        **changes,
    }
    return asker.fields("SyncGroup", version, **fields)


def beat(asker: Asker, group: str, member_id: str, generation: int, version: int = 3, **changes: Any) -> int:
    """The error code of a Heartbeat."""
    answer = asker.fields(
        "Heartbeat", version, group_id=group, generation_id=generation, member_id=member_id, **changes
    )
    code: int = answer["error_code"]
    return code


def leave(asker: Asker, group: str, *members: tuple[str, str | None]) -> Any:
    """LeaveGroup v4: the error of the whole and those of the members."""
    identities = [{"member_id": member_id, "group_instance_id": instance} for member_id, instance in members]
    answer = asker.fields("LeaveGroup", 4, group_id=group, members=identities)
    return [answer["error_code"], [member["error_code"] for member in answer["members"]]]


def _shape(answer: dict[str, Any]) -> dict[str, Any]:
    """A JoinGroup answer with its ids cut to what comes before the random part."""
    cut = {**answer, "member_id": _cut(answer["member_id"]), "leader": _cut(answer["leader"])}
    cut["members"] = [
        {**member, "member_id": _cut(member["member_id"]), "metadata": member["metadata"].decode()}
        for member in answer["members"]
    ]
    cut.pop("throttle_time_ms", None)
    return cut


def _cut(member_id: str) -> str:
    return member_id[:-36] + "*" if len(member_id) > 36 else member_id


@question
def join_refused(asker: Asker) -> Any:
    """JoinGroup v5 that is wrong in one way each: [error code, member id]."""
    group = new_group(asker)
    many = [{"name": str(n), "metadata": b""} for n in range(3)]
    wrong: dict[str, dict[str, Any]] = {
        "no group": {"group": ""},
        "session too short": {"session_timeout_ms": 5_999},
        "session too long": {"session_timeout_ms": 1_800_001},
        "no protocols": {"protocols": []},
        "no protocol type": {"protocol_type": ""},
        "unknown member": {"member_id": "nobody"},
        "unknown static member": {"member_id": "nobody", "group_instance_id": "i"},
        "fine": {"protocols": many},
    }
    answers = {}
    for label, changes in wrong.items():
        answer = join(asker, changes.pop("group", group), **changes)
        answers[label] = [answer["error_code"], _cut(answer["member_id"])]
    return answers


@question
def join_first_step(asker: Asker) -> Any:
    """The first JoinGroup of a member without an id, v4 to v9, whole."""
    group = new_group(asker)
    return {str(version): _shape(join(asker, group, version=version)) for version in range(4, 10)}


@question
def unknown_group(asker: Asker) -> Any:
    """What members of a group that does not exist are told, by API and version."""
    group = new_group(asker)
    answers: dict[str, Any] = {}
    for version in (0, 2, 3, 4):
        answers[f"heartbeat {version}"] = beat(asker, group, "m", 1, version)
    for version in (0, 3, 4):
        answers[f"sync {version}"] = sync(asker, group, "m", 1, version)["error_code"]
    answers["sync 5 without protocols"] = sync(asker, group, "m", 1, 5)["error_code"]
    names = {"protocol_type": "consumer", "protocol_name": "range"}
    answers["sync 5"] = sync(asker, group, "m", 1, 5, **names)["error_code"]
    for version in (0, 2):
        answers[f"leave {version}"] = asker.fields("LeaveGroup", version, group_id=group, member_id="m")["error_code"]
    answers["leave 4"] = leave(asker, group, ("m", None), ("", "i"))
    answers["leave 4 nobody"] = leave(asker, group)
    answers["no name"] = [
        beat(asker, "", "m", 1),
        sync(asker, "", "m", 1)["error_code"],
        leave(asker, "", ("m", None)),
    ]
    return answers


@question
def life_of_a_member(asker: Asker) -> Any:
    """Two steps to join, then sync, heartbeats right and wrong, descriptions, a second join, and leaving."""
    group = new_group(asker)
    member_id = join(asker, group, version=9)["member_id"]
    story: dict[str, Any] = {
        "described while it has an id": _described(asker, group),
        "joined": _shape(join(asker, group, member_id, version=9)),
        "described while it assigns": _described(asker, group),
        "heartbeat while it assigns": beat(asker, group, member_id, 1),
        "commit while it assigns": _commit(asker, group, member_id, 1),
        "sync of another generation": sync(asker, group, member_id, 9)["error_code"],
        "sync of another member": sync(asker, group, "nobody", 1)["error_code"],
        "sync of another protocol": sync(
            asker, group, member_id, 1, 5, protocol_type="consumer", protocol_name="sticky"
        )["error_code"],
        "sync": _text(sync(asker, group, member_id, 1, 5, protocol_type="consumer", protocol_name="range")),
        "sync again": _text(sync(asker, group, member_id, 1, 3)),
        "described": _described(asker, group),
        "heartbeat": beat(asker, group, member_id, 1),
        "heartbeat of an old generation": beat(asker, group, member_id, 0),
        "heartbeat of a later generation": beat(asker, group, member_id, 2),
        "heartbeat of another member": beat(asker, group, "nobody", 1),
        "heartbeat of a static member": beat(asker, group, member_id, 1, group_instance_id="i"),
        "another protocol type": join(asker, group, protocol_type="other")["error_code"],
        "another protocol": join(asker, group, protocols=[{"name": "x", "metadata": b""}])["error_code"],
        "commit": _commit(asker, group, member_id, 1),
        "commit of an old generation": _commit(asker, group, member_id, 0),
        "commit of another member": _commit(asker, group, "nobody", 1),
        "commit of nobody": _commit(asker, group, "", -1),
        "delete": asker.fields("DeleteGroups", 1, groups_names=[group])["results"][0]["error_code"],
        "the leader joins again": _shape(join(asker, group, member_id, version=9)),
        "it leaves": leave(asker, group, (member_id, None)),
        "described when it is gone": _described(asker, group),
        "heartbeat when it is gone": beat(asker, group, member_id, 2),
        "commit of nobody to an empty group": _commit(asker, group, "", -1),
        "commit of a member to an empty group": _commit(asker, group, member_id, 2),
    }
    deleted = asker.fields("DeleteGroups", 1, groups_names=[group, group])["results"]
    return {**story, "deleted": [result["error_code"] for result in deleted]}


@question
def life_of_a_static_member(asker: Asker) -> Any:
    """A static member joins, comes back twice (v9 and v5), and fences its former selves."""
    group = new_group(asker)
    static: dict[str, Any] = {"group_instance_id": "i1"}
    joined = join(asker, group, version=9, **static)
    first = joined["member_id"]
    story: dict[str, Any] = {
        "joined": _shape(joined),
        "sync": _text(sync(asker, group, first, 1, 3, **static)),
    }
    back = join(asker, group, version=9, **static)
    second = back["member_id"]
    story |= {
        "back in v9": _shape(back),
        "former self": [
            beat(asker, group, first, 1, **static),
            sync(asker, group, first, 1, 3, **static)["error_code"],
            join(asker, group, first, **static)["error_code"],
            leave(asker, group, (first, "i1")),
            beat(asker, group, first, 1),
        ],
        "sync when it is back": _text(sync(asker, group, second, 1, 3, **static)),
    }
    old = join(asker, group, version=5, **static)
    story |= {
        "back in v5": _shape(old),
        "is the leader its former self": old["leader"] == second,
        "another instance": beat(asker, group, old["member_id"], 1, group_instance_id="i2"),
        "removed by its instance": leave(asker, group, ("", "i1"), ("", "i1"), ("", None)),
    }
    return story


def _text(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "assignment": answer["assignment"].decode()}


def _described(asker: Asker, group: str) -> Any:
    (found,) = asker.fields("DescribeGroups", 4, groups=[group], include_authorized_operations=False)["groups"]
    members = [
        [_cut(m["member_id"]), m["client_id"], m["client_host"], m["member_metadata"], m["member_assignment"]]
        for m in found["members"]
    ]
    texts = [[part.decode() if isinstance(part, bytes) else part for part in member] for member in members]
    return [found["error_code"], found["group_state"], found["protocol_type"], found["protocol_data"], texts]


def _commit(asker: Asker, group: str, member_id: str, generation: int) -> int:
    from tests.clients.ask.group_offset import commit, shared_topic

    code: int = commit(asker, group, shared_topic(asker), member_id=member_id, generation_id_or_member_epoch=generation)
    return code
