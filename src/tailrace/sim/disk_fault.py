"""The faults of the disks of a cluster: full disks, write errors, failing fsyncs, and the restarts after them.

A full disk refuses writes, and the broker goes on when there is room again. Any other error takes the log folder
offline until the broker is restarted. A failed fsync loses what was not flushed, as a loss of power does.
"""

import errno
import os
from collections.abc import Callable

from tailrace.sim.broker import SimBroker
from tailrace.sim.process import Process
from tailrace.sim.world import World

_WRITES = frozenset({"write_at", "write_file", "create", "truncate", "rename", "make_directory"})
_SYNCS = frozenset({"sync", "sync_directory"})
_LENGTHS_S = (0.3, 1.0, 3.0)
_ROOM_BYTES = (0, 50, 1_000)
_REPAIR_S = (0.3, 3.0)
_LOOK_AGAIN_S = 0.5

Decide = Callable[[SimBroker, bool], bool | None]
"""Whether a broker may lose what is not flushed, if the second argument is true; None if it must not fail now."""


class DiskFaults:
    """Injects faults of one disk, or of one partition's files on it."""

    def __init__(self, world: World, loses_power: Decide) -> None:
        self._world = world
        self._loses_power = loses_power

    def menu(self) -> list[Callable[[], None]]:
        """Return the faults."""
        return [self.fill_disk, self.fill_partition, self.fail_writes, self.fail_one_sync, self.fail_one_sync]

    # --- full disks

    def fill_disk(self) -> None:
        """Leave little room on a disk for some seconds."""
        broker, random = self._broker(), self._world.random
        room_bytes, seconds = random.choice(_ROOM_BYTES), random.choice(_LENGTHS_S)
        self._world.note(f"the disk of {broker.host} has room for {room_bytes} bytes for {seconds:g} s")
        broker.fs.capacity_bytes = broker.fs.used_bytes() + room_bytes
        broker.fs.is_spared = lambda: self._needs_room(broker)
        self._world.loop.call_later(seconds, lambda: self._empty(broker))

    def _empty(self, broker: SimBroker) -> None:
        broker.fs.capacity_bytes = None
        self._repair_later(broker)

    def fill_partition(self) -> None:
        """Let the files of one partition grow no more for some seconds."""
        broker, seconds = self._broker(), self._world.random.choice(_LENGTHS_S)
        if (folder := self._folder(broker)) is None:
            return
        self._world.note(f"there is no room for {folder} of {broker.host} for {seconds:g} s")
        ends_s = self._world.loop.time() + seconds

        def fail(operation: str, path: str) -> OSError | None:
            is_failing = operation in _WRITES and _is_in(path, folder) and self._world.loop.time() < ends_s
            return _error(errno.ENOSPC) if is_failing and not self._needs_room(broker) else None

        broker.fail_calls(fail)
        self._world.loop.call_later(seconds, lambda: self._repair_later(broker))

    def _needs_room(self, broker: SimBroker) -> bool:
        """Whether a broker must get room, because it must not be killed now.

        Without room a stop is as unclean as a kill, and a start that fails removes the mark of the clean stop before.
        """
        return (broker.is_stopping or broker.broker is None) and self._loses_power(broker, False) is None

    # --- disks that fail

    def fail_writes(self) -> None:
        """Fail all writes to the files of one partition for some seconds."""
        broker, seconds = self._broker(), self._world.random.choice(_LENGTHS_S)
        if (folder := self._folder(broker)) is None:
            return
        self._world.note(f"writes to {folder} of {broker.host} fail for {seconds:g} s")
        ends_s = self._world.loop.time() + seconds

        def fail(operation: str, path: str) -> OSError | None:
            if operation not in _WRITES or not _is_in(path, folder) or self._world.loop.time() >= ends_s:
                return None
            # The restart that follows is as unclean as a kill.
            if not broker.has_failed_disk and self._loses_power(broker, False) is None:
                return None
            self._hurt(broker, f"{operation} {path} fails")
            return _error(errno.EIO)

        broker.fail_calls(fail)

    def fail_one_sync(self) -> None:
        """Fail the next fsync of a disk, or of one partition's files; what it should have written is lost.

        Most fsyncs come when a broker stops, so it sometimes stops soon.
        """
        broker, random = self._broker(), self._world.random
        folder = self._folder(broker) if random.random() < 0.4 else None
        self._world.note(f"the next fsync of {folder or 'the disk'} of {broker.host} fails")
        process = broker.process

        def fail(operation: str, path: str) -> OSError | None:
            is_meant = operation in _SYNCS and (folder is None or _is_in(path, folder))
            if not is_meant or broker.broker is None or not self._loses_power(broker, True):
                return None
            broker.fail_calls(None)
            broker.is_wounded = True
            self._hurt(broker, f"{operation} {path} fails")
            return _error(errno.EIO)

        if process is not None:
            broker.fail_calls(fail)
            if random.random() < 0.5:
                self._world.loop.call_later(random.uniform(0, 1), lambda: self._restart(broker, process))

    # --- the operator

    def _hurt(self, broker: SimBroker, what: str) -> None:
        """Have the broker restarted, which must not run in the step of the broker that fails."""
        self._world.loop.note(f"{broker.host}: {what}")
        if not broker.has_failed_disk:
            self._world.count("disk failures")
            self._world.loop.call_soon_world(lambda: self._repair_later(broker, is_certain=True))

    def _repair_later(self, broker: SimBroker, *, is_certain: bool = False) -> None:
        """Restart a broker in a while if its folder is offline then; with `is_certain`, even if it is not."""
        process, random = broker.process, self._world.random
        is_kill = random.random() < 0.5

        def repair() -> None:
            if process is not None and (is_certain or broker.has_failed_disk):
                self._restart(broker, process, is_kill=is_kill and broker.has_failed_disk)

        self._world.loop.call_later(random.uniform(*_REPAIR_S), repair)

    def _restart(self, broker: SimBroker, process: Process, *, is_kill: bool = False) -> None:
        if process is not broker.process:
            return
        self._world.note(
            f"{broker.host} is restarted, {'because' if broker.has_failed_disk else 'as if'} its disk failed"
        )
        self._world.count("restarts after a disk failure")
        if is_kill:
            broker.kill(is_power_loss=False)
        else:
            broker.stop()
        self._start_after(broker, process)

    def _start_after(self, broker: SimBroker, process: Process) -> None:
        if not broker.is_up:
            broker.start()
        elif broker.process is process:
            self._world.loop.call_later(_LOOK_AGAIN_S, lambda: self._start_after(broker, process))  # it still stops

    def heal(self, broker: SimBroker) -> None:
        """End all faults of a disk, and restart its broker if the disk has failed."""
        broker.fs.capacity_bytes = None
        broker.fail_calls(None)
        if broker.process is not None and broker.has_failed_disk and not broker.is_stopping:
            self._restart(broker, broker.process)

    # --- choices

    def _broker(self) -> SimBroker:
        return self._world.random.choice(self._world.brokers)

    def _folder(self, broker: SimBroker) -> str | None:
        """Return the folder of one of a broker's partitions; None if it has none."""
        folders = [partition.log.directory for partition in broker.replicas()]
        return self._world.random.choice(folders) if folders else None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
