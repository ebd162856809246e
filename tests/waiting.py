"""What the brokers inside the test process wait for, told in the report of a test that fails."""

import gc
import sys
import threading
import traceback
from collections.abc import Iterator

from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.runtime.coordinator.timer import ShardTimers
from tailrace.runtime.group.coordinator import GroupCoordinators

FRAMES_SHOWN = 6


def describe_waits() -> str:
    """Return the groups whose members wait for a reply, with the timers and the threads that should end the wait."""
    # `isinstance` asks the object, and a weak proxy of something that is gone cannot answer.
    brokers = [each for each in gc.get_objects() if type(each) is GroupCoordinators]
    waits = [line for groups in brokers for line in _describe(groups)]
    return "\n".join([*waits, *_describe_threads()] if waits else ())


def _describe_threads() -> Iterator[str]:
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread.name.startswith("tailrace-") and thread.ident in frames:
            stack = traceback.format_stack(frames[thread.ident], FRAMES_SHOWN)
            yield f"thread {thread.name} is at\n{''.join(stack)}"


def _describe(groups: GroupCoordinators) -> Iterator[str]:
    for machine in list(groups.loaded_machines()):
        for group in list(machine.groups.values()):
            if isinstance(group, ClassicGroup) and (group.joining or group.syncing):
                yield (
                    f"group {group.group_id} is {group.state_name} in generation {group.generation}: "
                    f"joins of {[*group.joining]} and syncs of {[*group.syncing]} wait, of members {[*group.members]}, "
                    f"pending {[*group.pending_join]}; {_describe_timers(groups._timers)}"
                )


def _describe_timers(timers: ShardTimers) -> str:
    deadlines = timers._deadlines
    now_ms = timers._clock.monotonic_ms()
    due = sorted((at_ms - now_ms, key) for (_, key), at_ms in list(deadlines._due_ms.items()))[:5]
    alarm = None if timers._alarm_ms is None else timers._alarm_ms - now_ms
    return f"the alarm ({timers._alarm}) is due in {alarm} ms, and the first timers in {due}"
