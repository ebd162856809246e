"""Checks of what retention and compaction leave: everything that no rule allows them to take, as it was written."""

from collections.abc import Iterator

from tailrace.sim.checkers.care import CaredLog, KeyedRecord, Scan, cared_logs
from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import FAIL, History


def find_swept_records(history: History) -> Iterator[Finding]:
    """Find records that a scan passed without seeing them, although no newer record of their key allows that.

    A scan that begins at the log start passes everything that retention has left. Compaction removes a record only if
    a newer one of its key may have been written, or a tombstone after `delete.retention.ms`.
    """
    for log in cared_logs(history):
        for record in log.records:
            for scan in log.scans:
                is_missing = scan.start <= record.offset < scan.end and record.offset not in scan.offsets
                if is_missing and not _may_be_compacted(log, record, scan):
                    text = f"{scan.operation.process} read from {scan.start} to {scan.end} without {_name(record)}"
                    yield Finding("swept", log.name, text, (log.put_of[record].begun, scan.operation.begun))
                    break


def _may_be_compacted(log: CaredLog, record: KeyedRecord, scan: Scan) -> bool:
    if not log.may_be_compacted(record, scan.operation):
        return False
    if not scan.is_final or not log.is_compacted or record.value is None:
        return True
    # Nothing is in progress any more: a newer record was written and seen, or it was a tombstone and may be gone.
    seen = {id(found) for found in log.put_of.values()}
    return any(id(each) in seen or each.asked["value"] is None for each in log.puts_after(log.put_of[record]))


def find_returned_records(history: History) -> Iterator[Finding]:
    """Find keys of which an old value was still there in the final scans, but nothing newer.

    If tombstones go soon, a replica that was away may keep a value although they deleted it and all before them, as in
    Kafka; that is no finding.
    """
    for log in cared_logs(history):
        finals = [scan for scan in log.scans if scan.is_final][-2:]
        if len(finals) < 2 or not log.is_compacted:
            continue
        stays = set(finals[0].records) & set(finals[1].records)
        newest: dict[str | None, KeyedRecord] = {record.key: record for record in finals[1].records}
        for record in newest.values():
            put = log.put_of.get(record)
            after = [] if put is None else log.puts_after(put)
            if not log.keeps_tombstones:
                after = after[max((i for i, each in enumerate(after, 1) if each.asked["value"] is None), default=0) :]
            newer = [each for each in after if each.is_ok]
            if record in stays and newer:
                text = f"{_name(record)} is the last of its key, although newer ones were acknowledged"
                yield Finding("returned", log.name, text, (newer[-1].begun, finals[1].operation.begun))


def find_altered_records(history: History) -> Iterator[Finding]:
    """Find records that differ from what was sent, from what was acknowledged, or between two scans."""
    for log in cared_logs(history):
        sent = {(put.asked["key"], put.asked["value"], put.asked["timestamp_ms"]): put for put in log.puts}
        known = {put.told["offset"]: put for put in log.puts if put.is_ok and put.told["offset"] >= 0}
        places: dict[int, int] = {put.begun: offset for offset, put in known.items()}
        for scan in log.scans:
            line, ended = scan.operation.begun, scan.operation.ended or 0
            offsets = [record.offset for record in scan.records]
            if offsets != sorted(set(offsets)):
                yield Finding("altered", log.name, "the offsets of a scan do not rise", (line,))
            for record in scan.records:
                put = sent.get(record[1:])
                if put is None or put.outcome == FAIL or put.begun > ended:
                    yield Finding("altered", log.name, f"{_name(record)} was never sent", (line,))
                elif known.setdefault(record.offset, put) is not put:
                    text = f"{_name(record)} is where another record was read or acknowledged"
                    yield Finding("altered", log.name, text, (put.begun, line))
                elif places.setdefault(put.begun, record.offset) != record.offset:
                    text = f"{_name(record)} is at offset {places[put.begun]}, too"
                    yield Finding("altered", log.name, text, (put.begun, line))


def find_stalled_scans(history: History) -> Iterator[Finding]:
    """Find scans that got nothing any more before the end of the log, after all faults were healed."""
    for log in cared_logs(history):
        for scan in log.scans:
            if scan.is_final and scan.operation.told["stalled"]:
                text = f"{scan.operation.process} got nothing from offset {scan.end} on, below the end of the log"
                yield Finding("stalled", log.name, text, (scan.operation.begun,))


def _name(record: KeyedRecord) -> str:
    return f"{record.value or f'the tombstone of {record.key}'} at offset {record.offset}"
