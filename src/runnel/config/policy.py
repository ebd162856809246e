"""Checks that broker defaults and topic options share, because one gives the other its value."""

from runnel.config.check import Check, one_of, only

TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")
COMPRESSION = only("producer", "the broker keeps the compression of the producer and cannot change it yet")


def _refuse_cleanup(policy: tuple[str, ...]) -> str | None:
    if set(policy) <= {"compact", "delete"} and "compact" in policy:
        return "log compaction is not supported yet"
    return None


CLEANUP_POLICY: Check[tuple[str, ...]] = Check("delete", lambda policy: policy == ("delete",), _refuse_cleanup)
