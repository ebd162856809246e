"""The paths and values of ACLs and delegation tokens in the metadata store, in Kafka's ZooKeeper layout.

/kafka-acl/TYPE/NAME                       the ACLs of a literal pattern; names are percent-encoded
/kafka-acl-extended/prefixed/TYPE/NAME     the ACLs of a prefix
/delegation_token/tokens/ID                a delegation token, without its secret
"""

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from tailrace.coordination.store import Change
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource
from tailrace.machines.controller.entity import decode_name, encode_name
from tailrace.machines.controller.security_record import AclEntry, AclPattern, AclRecord, TokenRecord, TokenRemoved

_ACLS = "/kafka-acl"
_PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
_TOKENS = "/delegation_token/tokens"

Word = TypeVar("Word", bound=IntEnum)


def acl_path(pattern: AclPattern) -> str:
    """Return the path of the ACLs of a pattern."""
    folder = _PREFIXED_ACLS if pattern.pattern_type is PatternType.PREFIXED else _ACLS
    return f"{folder}/{_spelling(pattern.resource)}/{encode_name(pattern.name)}"


def token_path(token_id: str) -> str:
    """Return the path of a delegation token."""
    return f"{_TOKENS}/{encode_name(token_id)}"


def acl_value(record: AclRecord) -> dict[str, object]:
    """Return the value of the node of a pattern's ACLs."""
    return {"version": 1, "acls": [_entry_value(entry) for entry in record.entries]}


def token_value(record: TokenRecord) -> dict[str, object]:
    """Return the value of the node of a delegation token."""
    return {
        "version": 3,
        "tokenId": record.token_id,
        "owner": encode_name(record.owner),
        "tokenRequester": encode_name(record.requester),
        "renewers": [encode_name(renewer) for renewer in record.renewers],
        "issueTimestamp": record.issue_timestamp,
        "expiryTimestamp": record.expiry_timestamp,
        "maxTimestamp": record.max_timestamp,
    }


def security_record(names: Sequence[str], change: Change) -> AclRecord | TokenRecord | TokenRemoved | None:
    """Return the record that a change at the path of these names means, or None for nodes outside the image."""
    match names:
        case ["kafka-acl", kind, name] if kind in _RESOURCES:
            return _acl_record(AclPattern(_RESOURCES[kind], PatternType.LITERAL, decode_name(name)), change)
        case ["kafka-acl-extended", "prefixed", kind, name] if kind in _RESOURCES:
            return _acl_record(AclPattern(_RESOURCES[kind], PatternType.PREFIXED, decode_name(name)), change)
        case ["delegation_token", "tokens", token_id]:
            return _token_record(decode_name(token_id), change)
    return None


def _acl_record(pattern: AclPattern, change: Change) -> AclRecord:
    entries = [_entry(each) for each in json.loads(change.node.value)["acls"]] if change.node else []
    return AclRecord(pattern, tuple(sorted(set(entries))))


def _entry_value(entry: AclEntry) -> dict[str, str]:
    return {
        "principal": entry.principal,
        "permissionType": _spelling(entry.permission),
        "operation": _spelling(entry.operation),
        "host": entry.host,
    }


def _entry(value: Mapping[str, str]) -> AclEntry:
    operation, permission = _OPERATIONS[value["operation"]], _PERMISSIONS[value["permissionType"]]
    return AclEntry(value["principal"], value["host"], operation, permission)


def _token_record(token_id: str, change: Change) -> TokenRecord | TokenRemoved:
    if change.node is None:
        return TokenRemoved(token_id)
    value: dict[str, Any] = json.loads(change.node.value)
    owner = decode_name(value["owner"])
    return TokenRecord(
        token_id,
        owner,
        decode_name(value["tokenRequester"]) if "tokenRequester" in value else owner,
        tuple(decode_name(renewer) for renewer in value["renewers"]),
        value["issueTimestamp"],
        value["expiryTimestamp"],
        value["maxTimestamp"],
    )


def _spelling(word: IntEnum) -> str:
    """Return the spelling of a word in Kafka's nodes, such as TransactionalId."""
    return "".join(part.capitalize() for part in word.name.split("_"))


def _by_spelling(words: type[Word]) -> dict[str, Word]:
    return {_spelling(word): word for word in words}


_RESOURCES = _by_spelling(Resource)
_OPERATIONS = _by_spelling(Operation)
_PERMISSIONS = _by_spelling(Permission)
