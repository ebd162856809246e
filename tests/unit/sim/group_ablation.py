"""Safeguards of groups, each taken away by a patch, so that the simulator can show that it is needed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tailrace.client.group.assignor import sticky
from tailrace.client.group.classic_message import Lead
from tailrace.client.group.classic_protocol import ClassicMember
from tailrace.client.group.group import Group
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.coordinator import GroupCoordinator
from tailrace.machines.group.decision import Decision


@contextmanager
def old_members_may_commit() -> Iterator[None]:
    """A coordinator takes commits of every generation and of expelled members, in both protocols."""
    with patch.object(ClassicGroup, "check_offset_commit", lambda *_, **__: None):
        with patch.object(ConsumerGroup, "check_offset_commit", lambda *_, **__: None):
            yield


@contextmanager
def partitions_are_assigned_twice() -> Iterator[None]:
    """The leader of a classic group gives the assignment of one member to all."""
    assign = Lead.assign

    def assign_all(lead: Lead, *arguments: Any) -> dict[str, bytes]:
        found = assign(lead, *arguments)
        return dict.fromkeys(found, max(found.values()))

    with patch.object(Lead, "assign", assign_all):
        yield


@contextmanager
def eager_members_keep_partitions() -> Iterator[None]:
    """An eager member keeps its partitions when it joins, and gives them up when it has the next assignment."""

    async def keep(_member: ClassicMember) -> None:
        return

    with patch.object(ClassicMember, "_let_go", keep):
        yield


@contextmanager
def cooperative_assignors_do_not_wait() -> Iterator[None]:
    """The cooperative assignor gives a partition to a member while another one still owns it."""
    with patch.object(sticky.CooperativeStickyAssignor, "assign", sticky.StickyAssignor.assign):
        yield


@contextmanager
def owned_partitions_are_free() -> Iterator[None]:
    """The coordinator of the consumer protocol gives a partition to a member before its owner has given it up."""
    with patch.object(ConsumerGroup, "is_free", lambda *_: True):
        yield


@contextmanager
def newest_offset_is_not_loaded() -> Iterator[None]:
    """A coordinator that takes over has not applied the last offset of its log."""
    on_loaded = GroupCoordinator.on_loaded

    def forget(machine: GroupCoordinator, now_ms: int) -> Any:
        entries = list(machine.offsets.store.entries())
        if entries:
            group_id, topic, partition, _ = max(entries, key=lambda entry: entry[3].record_offset)
            machine.offsets.store.remove(group_id, topic, partition)
        return on_loaded(machine, now_ms)

    with patch.object(GroupCoordinator, "on_loaded", forget):
        yield


@contextmanager
def members_do_not_look() -> Iterator[None]:
    """A member reads the partitions that it gets from their beginning."""

    async def find(_group: Group, _targets: Any) -> Mapping[Any, Any]:
        return {}

    with patch.object(Group, "_find_places", find):
        yield


@contextmanager
def automatic_commits_run_ahead() -> Iterator[None]:
    """An automatic commit has one record more than the application got."""
    positions = Group.positions

    def more(group: Group, *targets: Any) -> dict[Any, Any]:
        return {target: at._replace(offset=at.offset + 1) for target, at in positions(group, *targets).items()}

    with patch.object(Group, "positions", more):
        yield


@contextmanager
def sessions_never_end() -> Iterator[None]:
    """A coordinator keeps members that it has not heard of for longer than their session."""
    on_timer = GroupCoordinator.on_timer

    def wait(machine: GroupCoordinator, now_ms: int, key: tuple[str, ...]) -> Any:
        return Decision() if key[0].endswith("-session") else on_timer(machine, now_ms, key)

    with patch.object(GroupCoordinator, "on_timer", wait):
        yield


@contextmanager
def static_members_keep_assignments() -> Iterator[None]:
    """A static member of a classic group that comes back with other topics gets the assignment that it had."""
    with patch.object(ClassicGroup, "topics_of", lambda *_: None):
        yield


ABLATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "old members may commit": old_members_may_commit,
    "partitions are assigned twice": partitions_are_assigned_twice,
    "eager members keep partitions": eager_members_keep_partitions,
    "cooperative assignors do not wait": cooperative_assignors_do_not_wait,
    "owned partitions are free": owned_partitions_are_free,
    "newest offset is not loaded": newest_offset_is_not_loaded,
    "members do not look": members_do_not_look,
    "automatic commits run ahead": automatic_commits_run_ahead,
    "sessions never end": sessions_never_end,
    "static members keep assignments": static_members_keep_assignments,
}

FOUND = {
    "old members may commit": {"an old owner commits", "offset went back"},
    "partitions are assigned twice": {"two-owners", "two owners commit"},
    "eager members keep partitions": {"two-owners"},
    "cooperative assignors do not wait": {"two-owners"},
    "owned partitions are free": {"given to a second member"},
    "newest offset is not loaded": {"an acknowledged offset is lost"},
    "members do not look": {"offset went back", "group-offset-regression"},
    "automatic commits run ahead": {"commit-ahead"},
    "sessions never end": {"unconverged"},
    "static members keep assignments": {"unconverged"},
}
"""What a simulation without the safeguard finds, among others."""
