"""ACLs, quotas, SCRAM, SASL and log folders on a broker without an authorizer and with a plaintext listener."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from tests.clients.ask.asker import Asker, question

ANY = 1
ACL_FILTER = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}
ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
QUOTA_REMOVAL = {
    "entity": [{"entity_type": "user", "entity_name": "nobody"}],
    "ops": [{"key": "producer_byte_rate", "value": 0.0, "remove": True}],
}
SENSIBLE: dict[str, dict[str, Any]] = {
    "SaslHandshake": {"mechanism": "PLAIN"},
    "SaslAuthenticate": {"auth_bytes": b"\0user\0password"},
    "DescribeAcls": ACL_FILTER,
    "CreateAcls": {"creations": [ACL]},
    "DeleteAcls": {"filters": [ACL_FILTER]},
    "AlterReplicaLogDirs": {"dirs": [{"path": "/no/such/folder", "topics": [{"name": "t", "partitions": [0]}]}]},
    "DescribeClientQuotas": {"components": [], "strict": False},
    "AlterClientQuotas": {"entries": [QUOTA_REMOVAL], "validate_only": True},
    "DescribeUserScramCredentials": {"users": [{"name": "nobody"}]},
    "AlterUserScramCredentials": {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []},
}
"""A request to each of these APIs that a client may send, by name."""
REFUSED = {
    "SaslHandshake": {34},
    "SaslAuthenticate": {34},
    "DescribeAcls": {54},
    "CreateAcls": {54},
    "DeleteAcls": {54},
    "AlterReplicaLogDirs": {57},
    "DescribeUserScramCredentials": {91},
    "AlterUserScramCredentials": {91},
}
"""The codes that such a request gets where security is off."""


@question
def acls(asker: Asker) -> Any:
    """DescribeAcls, CreateAcls and DeleteAcls v3 without an authorizer: the codes."""
    described = asker.fields("DescribeAcls", 3, **SENSIBLE["DescribeAcls"])
    created = asker.fields("CreateAcls", 3, **SENSIBLE["CreateAcls"])
    deleted = asker.fields("DeleteAcls", 3, **SENSIBLE["DeleteAcls"])
    return {
        "describe": [described["error_code"], described["resources"]],
        "create": [result["error_code"] for result in created["results"]],
        "delete": [[result["error_code"], result["matching_acls"]] for result in deleted["filter_results"]],
    }


@question
def quotas(asker: Asker) -> Any:
    """DescribeClientQuotas v1 with different filters: [code, entries, is the message empty]."""

    def describe(*components: tuple[str, int, str | None]) -> Any:
        asked = [{"entity_type": name, "match_type": kind, "match": match} for name, kind, match in components]
        answer = asker.fields("DescribeClientQuotas", 1, components=asked, strict=True)
        return [answer["error_code"], answer["entries"], answer["error_message"] == ""]

    return {
        "all": describe(),
        "users": describe(("user", 2, None)),
        "unknown type": describe(("foo", 2, None)),
        "twice": describe(("user", 2, None), ("user", 2, None)),
        "match type 7": describe(("user", 7, None)),
        "empty type": describe(("", 2, None)),
        "exactly null": describe(("user", 0, None)),
        "user and ip": describe(("user", 2, None), ("ip", 2, None)),
    }


@question
def remove_quota(asker: Asker) -> Any:
    """AlterClientQuotas v1 that removes a quota that is not set: the code and the message."""
    answer = asker.fields("AlterClientQuotas", 1, entries=[QUOTA_REMOVAL], validate_only=False)
    return [[entry["error_code"], entry["error_message"]] for entry in answer["entries"]]


@question
def scram(asker: Asker) -> Any:
    """DescribeUserScramCredentials v0 of all users and of some, and AlterUserScramCredentials v0 that removes."""

    def describe(names: list[str] | None) -> Any:
        users = None if names is None else [{"name": name} for name in names]
        answer = asker.fields("DescribeUserScramCredentials", 0, users=users)
        results = [[result["user"], result["error_code"]] for result in answer["results"]]
        return [answer["error_code"], answer["error_message"], results]

    deletions = [{"name": "a", "mechanism": 1}, {"name": "b", "mechanism": 9}]
    altered = asker.fields("AlterUserScramCredentials", 0, deletions=deletions, upsertions=[])
    return {
        "all": describe(None),
        "none": describe([]),
        "some": describe(["bob", "bob", "al"]),
        "removed": sorted([result["user"], result["error_code"]] for result in altered["results"]),
    }


@question
def scram_stored(asker: Asker) -> Any:
    """AlterUserScramCredentials v0 that sets and removes, and what DescribeUserScramCredentials v0 shows then."""
    user, other = f"u-{uuid4().hex}", f"o-{uuid4().hex}"

    def upsertion(name: str, mechanism: int = 1, iterations: int = 4096, **changes: Any) -> dict[str, Any]:
        salted = bytes(32 if mechanism == 1 else 64)
        fields = {"name": name, "mechanism": mechanism, "iterations": iterations, "salt": b"salt"}
        return {**fields, "salted_password": salted, **changes}

    def alter(*upsertions: dict[str, Any], deletions: Sequence[tuple[str, int]] = ()) -> Any:
        gone = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions]
        answer = asker.fields("AlterUserScramCredentials", 0, deletions=gone, upsertions=list(upsertions))
        named = {user: "user", other: "other"}
        return sorted([named.get(result["user"], result["user"]), result["error_code"]] for result in answer["results"])

    def describe(name: str) -> Any:
        (result,) = asker.fields("DescribeUserScramCredentials", 0, users=[{"name": name}])["results"]
        infos = sorted([info["mechanism"], info["iterations"]] for info in result["credential_infos"])
        return [result["error_code"], result["error_message"] == "", infos]

    return {
        "set": alter(upsertion(user), upsertion(other, 2, 16384)),
        "described": [describe(user), describe(other)],
        "few": alter(upsertion(user, iterations=4095)),
        "many": alter(upsertion(user, iterations=16385)),
        "no name": alter(upsertion("")),
        "mechanism 0": alter(upsertion(user, 0)),
        "mechanism 3": alter(upsertion(user, 3)),
        "twice": alter(upsertion(user), upsertion(user, 2)),
        "removed and set": alter(upsertion(user, 2), deletions=[(user, 1)]),
        "missing first": alter(upsertion(user), deletions=[(user, 2)]),
        "partly": alter(upsertion(other, iterations=1), deletions=[(user, 1)]),
        "removed": [describe(user), alter(deletions=[(other, 2)]), alter(deletions=[(other, 2)])],
    }


@question
def sasl(asker: Asker) -> Any:
    """SaslHandshake and SaslAuthenticate in all versions on a plaintext listener: the codes; is the connection open?"""
    answers: dict[str, Any] = {}
    for name, versions in (("SaslHandshake", (0, 1)), ("SaslAuthenticate", (0, 1, 2))):
        for version in versions:
            with asker.wire() as wire:
                answer = wire.ask(name, version, **SENSIBLE[name])
                code = answer if isinstance(answer, str) else answer["error_code"]
                answers[f"{name} {version}"] = [code, asker.alive(wire)]
    return answers


@question
def replica_log_dirs(asker: Asker) -> Any:
    """AlterReplicaLogDirs v2 to the folder where a replica is, and to others: the codes."""
    topic = asker.topic()
    here = asker.fields("DescribeLogDirs", 1, topics=[])["results"][0]["log_dir"]

    def move(path: str, name: str, index: int) -> Any:
        dirs = [{"path": path, "topics": [{"name": name, "partitions": [index]}]}]
        answer = asker.fields("AlterReplicaLogDirs", 2, dirs=dirs)
        return answer["results"][0]["partitions"][0]["error_code"]

    return {
        "absolute": here.startswith("/"),
        "same folder": move(here, topic, 0),
        "unknown partition": move(here, topic, 5),
        "unknown topic": move(here, "no-such-topic", 0),
        "unknown folder": move("/no/such/folder", topic, 0),
        "no folder": move("", topic, 0),
    }
