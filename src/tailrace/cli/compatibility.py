"""The page docs/COMPATIBILITY.md: APIs from the server's registry, clients from the test matrix."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.registry import API_KEYS, version_range
from tailrace.server.api import Api
from tailrace.server.handlers import APIS

_INTRODUCTION = """\
<!-- Generated from the server's registry of APIs and from tests/clients/matrix.json. Do not edit: run make docs -->

# Compatibility

Tailrace speaks Kafka's wire protocol and stores Kafka's files. This page says how much of the protocol
is there, and which clients are held against it in the tests.

## Clients

Every client of the table below goes through the same work against a Tailrace broker, and what it writes
is read back byte for byte:

{steps}
"""

_APIS = """\
## APIs that are served

Versions are those that a broker announces; Kafka's are those that Kafka 4.4 knows.
"""

_ABSENT = """\
## APIs that are not served yet

A broker does not announce these, so clients do not send them, or report that the broker is too old.
Access control, quotas and share groups are among them.
"""

# Removed from Kafka, or spoken only among brokers and controllers: no client sends them.
_INTERNAL_KEYS = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)


def render(matrix: Mapping[str, Any]) -> str:
    """Return the page."""
    steps = "\n".join(f"{number}. {words}" for number, words in enumerate(matrix["steps"].values(), start=1))
    absent = [key for key in ApiKey if key not in APIS and key not in _INTERNAL_KEYS]
    parts = [
        _INTRODUCTION.format(steps=steps),
        _table(("client", "language", "version", "does", "remarks"), _client_rows(matrix)),
        _APIS,
        _table(
            ("API", "key", "versions", "Kafka's", "what is not there"), (_api_row(APIS[key]) for key in sorted(APIS))
        ),
        _ABSENT,
        _table(("API", "key"), [(_title(key), str(int(key))) for key in absent]),
    ]
    return "\n".join(parts)


def read_matrix(path: Path) -> Mapping[str, Any]:
    """Return the clients of the test matrix with the steps that each supports."""
    matrix: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return matrix


def _client_rows(matrix: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    steps = list(matrix["steps"])
    for client in matrix["clients"]:
        covered = set(client["covers"])
        if ApiKey.JOIN_GROUP not in APIS:
            covered -= set(client.get("needs_groups", ()))
        numbers = [number for number, step in enumerate(steps, start=1) if step in covered]
        done = "all" if len(numbers) == len(steps) else ", ".join(map(str, numbers))
        yield client["client"], client["language"], client["version"], done, " ".join(client["notes"])


def _api_row(api: Api) -> tuple[str, ...]:
    kafka_min, kafka_max = version_range(api.key) if api.key in API_KEYS else (api.version_min, api.version_max)
    kafka_min = min(kafka_min, api.advertised_min)
    return (
        _title(api.key),
        str(int(api.key)),
        _versions(api.advertised_min, api.version_max),
        _versions(kafka_min, kafka_max),
        api.missing,
    )


def _versions(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _title(key: ApiKey) -> str:
    """Kafka's name of an API in its protocol guide."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
