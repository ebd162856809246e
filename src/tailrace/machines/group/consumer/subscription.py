"""The subscriptions of a consumer group: topic names, and regular expressions resolved against the cluster."""

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import re2

from tailrace.base.limits import SUBSCRIPTION_REGEX_CACHE_COUNT_MAX
from tailrace.base.request_limits import GROUP_REGEXES_MAX
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.decision import Timer
from tailrace.machines.group.consumer.change import REGEX, Change
from tailrace.machines.group.consumer.group import ConsumerGroup, ResolvedRegex
from tailrace.machines.group.consumer.member import ConsumerMember
from tailrace.machines.group.consumer.record import (
    epoch_record,
    partition_metadata_tombstone,
    regex_record,
    regex_tombstone,
)
from tailrace.machines.group.decision import Decision
from tailrace.machines.regular_expression import compile_pattern
from tailrace.protocol.errors import ApiError, ErrorCode

REGEX_REFRESH_WAIT_MS_MIN = 10_000
"""The shortest time between two resolutions of the regular expressions of a group; Kafka's value."""


class RegexChange(Enum):
    """The effect of a heartbeat on the regular expression of its member."""

    NONE = 0
    UNRESOLVED = 1
    RESOLVED = 2


@lru_cache(SUBSCRIPTION_REGEX_CACHE_COUNT_MAX)
def compile_regex(text: str) -> Any:
    """Compile a regular expression that matches topic names as bytes; raise INVALID_REGULAR_EXPRESSION."""
    try:
        # Matching bytes is several times faster than matching text, and topic names are ASCII.
        return compile_pattern(text.encode())
    except re2.error as error:
        detail = error.args[0] if error.args else error
        words = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: {words}.",
        ) from None


def hash_topics(names: Iterable[str], image: ClusterImage) -> int:
    """Compute a hash that changes when one of these topics is created, grows or is deleted; 0 for no topics.

    Kafka keeps another hash of the same facts in the same field. So the partitions of a group that Kafka wrote are
    assigned once more when Tailrace takes over, and the other way round.
    """
    known = [image.topics[name] for name in sorted(names) if name in image.topics]
    if not known:
        return 0
    facts = "".join(f"{topic.name}/{topic.topic_id.hex}/{topic.partition_count};" for topic in known)
    return int.from_bytes(blake2b(facts.encode(), digest_size=8).digest(), "big", signed=True)


def refresh_metadata(change: Change, member: ConsumerMember, bump: bool) -> None:
    """Raise the group epoch if the subscription or the topics of the group changed."""
    group = change.group
    members = change.members_with(member)
    names = set().union(*map(group.topics_of, members.values()))
    metadata_hash = hash_topics(names, change.image)
    if bump or metadata_hash != group.metadata_hash:
        change.epoch += 1
        change.write(epoch_record(group.group_id, change.epoch, metadata_hash))
    group.note_refresh(change.epoch, change.topics_version)
    if group.has_partition_metadata:
        change.write(partition_metadata_tombstone(group.group_id))


def change_regex(change: Change, former: ConsumerMember, member: ConsumerMember) -> RegexChange:
    """Remove a regular expression without users, check a new one, and schedule the resolution if it is due."""
    status = RegexChange.NONE
    group, old, new = change.group, former.topic_regex, member.topic_regex
    if not (old or new or group.regex_counts):
        return status
    counts = Counter(group.regex_counts)
    is_new = False
    if old != new:
        status = RegexChange.UNRESOLVED
        if old and counts[old] == 1:
            change.write(regex_tombstone(group.group_id, old))
        if new and not counts[new]:
            _check_count(counts, old)
            compile_regex(new)
            is_new = True
        elif (new and new in group.resolved) or (old and not new):
            # The topics of the new subscription are known, so that a new target can be computed at once.
            status = RegexChange.RESOLVED
    if old:
        counts[old] -= 1
    if new:
        counts[new] += 1
    if _is_refresh_due(change, len(+counts), is_new):
        group.regex_refresh_pending = True
        change.decision.timers.append(Timer((REGEX, group.group_id), change.now_ms))
    return status


def _check_count(counts: Counter[str], old: str | None) -> None:
    """Raise INVALID_REGULAR_EXPRESSION if a group cannot have a new regular expression after a member drops `old`."""
    count = len(+counts) - (old is not None and counts[old] == 1)
    if count >= GROUP_REGEXES_MAX:
        message = f"The group is already subscribed to {count} different regular expressions."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)


def _is_refresh_due(change: Change, regex_count: int, is_new: bool) -> bool:
    group = change.group
    if group.regex_refresh_pending or not regex_count:
        return False
    last = next(iter(group.resolved.values()), None)
    if last is None or last.timestamp_ms > change.now_ms:
        return True  # a time in the future, and the version that belongs to it, are by another broker's clock
    if change.now_ms <= last.timestamp_ms + REGEX_REFRESH_WAIT_MS_MIN:
        return False
    return (
        is_new
        or regex_count != len(group.resolved)
        or last.version < change.topics_created_ms
        or change.now_ms > last.timestamp_ms + change.setting.regex_refresh_interval_ms
    )


def resolve_regexes(change: Change) -> Decision:
    """Resolve the regular expressions of a group against all topics; raise the group epoch if the result changed."""
    group = change.group
    group.regex_refresh_pending = False
    bump = False
    resolved = dict(group.resolved)
    for regex in sorted(group.regex_counts):
        topics = _matches(regex, change.image.topics)
        bump = bump or topics != (group.resolved[regex].topics if regex in group.resolved else frozenset())
        resolved[regex] = ResolvedRegex(topics, change.topics_created_ms, change.now_ms)
        change.write(regex_record(group.group_id, regex, topics, change.topics_created_ms, change.now_ms))
    metadata_hash = hash_topics(_names_with(group, resolved), change.image)
    if bump or metadata_hash != group.metadata_hash:
        change.epoch += 1
        change.write(epoch_record(group.group_id, change.epoch, metadata_hash))
        group.note_refresh(change.epoch, change.topics_version)
    return change.decision


def _matches(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Return the matching topics. Another broker may have accepted a regular expression that is too large here."""
    try:
        pattern = compile_regex(regex)
    except ApiError:
        return frozenset()
    return frozenset(name for name in names if pattern.fullmatch(name.encode()))


def _names_with(group: ConsumerGroup, resolved: dict[str, ResolvedRegex]) -> set[str]:
    """Return all topics that the group is subscribed to with these resolved regular expressions."""
    names: set[str] = set()
    for member in group.members.values():
        names |= member.topic_names
        if member.topic_regex in resolved:
            names |= resolved[member.topic_regex].topics
    return names
