"""The logs that retention and compaction shorten: the records that are known of each, and who removed what."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from tailrace.sim.history import FAIL, History, Operation

EARLIEST = -2
_LONG_MS = 24 * 3_600_000
_POLICY = "cleanup.policy"


class KeyedRecord(NamedTuple):
    """One record of a scan."""

    offset: int
    key: str | None
    value: str | None
    timestamp_ms: int


@dataclass
class Scan:
    """A read of everything from the start up to `end`."""

    operation: Operation
    records: tuple[KeyedRecord, ...]

    @property
    def start(self) -> int:
        return int(self.operation.asked["offset"])

    @property
    def end(self) -> int:
        return int(self.operation.told["end"])

    @property
    def is_final(self) -> bool:
        return bool(self.operation.asked["final"])

    @cached_property
    def offsets(self) -> frozenset[int]:
        return frozenset(record.offset for record in self.records)


@dataclass
class CaredLog:
    """All information of a history about one such log. Operations are in the history's order."""

    name: str
    configs: Mapping[str, str] = field(default_factory=dict)
    puts: list[Operation] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)
    lookups: list[Operation] = field(default_factory=list)
    deletions: list[Operation] = field(default_factory=list)
    retentions: list[Operation] = field(default_factory=list)
    compactions: list[Operation] = field(default_factory=list)
    policies: list[Operation] = field(default_factory=list)
    """The changes of its cleanup.policy."""

    @property
    def is_compacted(self) -> bool:
        """Whether the log is compacted, always or at times."""
        return any("compact" in policy for policy in self.policies_before(None))

    def policies_before(self, line: int | None) -> set[str]:
        """Return the policies that a broker may have followed up to a line of the history; None for its end.

        A broker without a connection to the metadata store follows an old one, so each that the topic had counts.
        """
        changes = [each for each in self.policies if each.outcome != FAIL and (line is None or each.begun < line)]
        return {str(self.configs.get(_POLICY, "delete")), *(each.asked["configs"][_POLICY] for each in changes)}

    @property
    def keeps_tombstones(self) -> bool:
        """Whether no tombstone is old enough to be removed, although the clocks of brokers may be hours off."""
        return int(self.configs.get("delete.retention.ms", _LONG_MS)) >= _LONG_MS

    def may_be_compacted(self, record: KeyedRecord, by: Operation) -> bool:
        """Return whether compaction may have removed a record when an operation ended."""
        if not any("compact" in policy for policy in self.policies_before(by.ended)):
            return False
        is_spent = record.value is None and not self.keeps_tombstones
        return is_spent or bool(self.puts_after(self.put_of[record], by.ended))

    def limit(self, name: str) -> int | None:
        """Return a limit of the topic; None for no limit."""
        value = int(self.configs.get(name, "-1"))
        return None if value < 0 else value

    @cached_property
    def put_of(self) -> dict[KeyedRecord, Operation]:
        """The put of each acknowledged or scanned record."""
        by_content = {(put.asked["key"], put.asked["value"], put.asked["timestamp_ms"]): put for put in self.puts}
        found = {}
        for scan in self.scans:
            for record in scan.records:
                if (put := by_content.get(record[1:])) is not None:
                    found[record] = put
        for put in self.puts:
            if put.is_ok and put.told["offset"] >= 0:
                asked = put.asked
                found[KeyedRecord(put.told["offset"], asked["key"], asked["value"], asked["timestamp_ms"])] = put
        return found

    @cached_property
    def records(self) -> list[KeyedRecord]:
        """The records that were certainly written, by offset."""
        return sorted(self.put_of, key=lambda record: record.offset)

    @cached_property
    def puts_by_key(self) -> dict[str, list[Operation]]:
        """The puts of each key, in their order."""
        found: dict[str, list[Operation]] = defaultdict(list)
        for put in sorted(self.puts, key=lambda put: put.begun):
            found[put.asked["key"]].append(put)
        return found

    def puts_after(self, put: Operation, before: int | None = None) -> list[Operation]:
        """Return the later puts of its key that may have been written, up to a line of the history."""
        later = self.puts_by_key[put.asked["key"]]
        later = later[later.index(put) + 1 :]
        return [each for each in later if each.outcome != "fail" and (before is None or each.begun < before)]


@lru_cache(maxsize=1)  # every checker uses it in turn
def cared_logs(history: History) -> list[CaredLog]:
    """Return the logs whose care the history shows, by name."""
    logs: dict[str, CaredLog] = {}

    def log(operation: Operation) -> CaredLog:
        name = operation.asked["partition"]
        return logs.setdefault(name, CaredLog(name))

    for operation in history.of("put", "scan", "lookup", "delete-records", "expire", "compact"):
        match operation.kind:
            case "put":
                log(operation).puts.append(operation)
            case "scan" if operation.is_ok:
                records = tuple(KeyedRecord(*record) for record in operation.told["records"])
                log(operation).scans.append(Scan(operation, records))
            case "lookup":
                log(operation).lookups.append(operation)
            case "delete-records":
                log(operation).deletions.append(operation)
            case "expire":
                log(operation).retentions.append(operation)
            case "compact":
                log(operation).compactions.append(operation)
    changes = [each for each in history.of("alter") if _POLICY in each.asked["configs"]]
    for topic in history.of("topic"):
        for name, found in logs.items():
            if name.rpartition("-")[0] == topic.asked["topic"]:
                found.configs = topic.asked["configs"]
                found.policies = [each for each in changes if each.asked["topic"] == topic.asked["topic"]]
    return [logs[name] for name in sorted(logs) if logs[name].puts]
