"""Consumer groups that show how far flows have come, so that the lag is seen where people look for it.

A flow goes on from its checkpoint, and never from its group: a commit that fails or comes late costs nothing. A thread
commits the newest positions, so that slow brokers do not hold up Spark's reports.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from tailrace.base.limits import PIPELINE_GROUP_INTERVAL_S
from tailrace.client.admin.sync import Admin
from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError
from tailrace.spark.pipeline.plan import FlowPlan
from tailrace.spark.position import Offsets

log = logging.getLogger("tailrace.spark.pipeline")

_PATIENCE = {"request.timeout.ms": "5000", "default.api.timeout.ms": "10000"}
"""A pipeline that stops waits for its last commits, and must not wait long."""

Commit = Callable[[str, str, Offsets], None]
"""Commits offsets for brokers at an address and a group; raises `ClientError` or `ApiError`."""


def group_name(file_stem: str, flow: str) -> str:
    """Return the name of the group that mirrors the progress of a flow."""
    return f"pipeline-{file_stem}-{flow}"


class GroupMirror:
    """Commits the positions of flows to consumer groups: each to its own, or all to `group`."""

    def __init__(self, file_stem: str, plans: Sequence[FlowPlan], commit: Commit, *, group: str | None = None) -> None:
        self._groups = {plan.name: group or group_name(file_stem, plan.name) for plan in plans}
        self._addresses = {plan.name: _addresses(plan) for plan in plans}
        self._commit = commit
        self._new: dict[tuple[str, str], Offsets] = {}
        self._failed: set[str] = set()
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to commit."""
        self._is_stopping.clear()
        self._thread = threading.Thread(target=self._run, name="tailrace-groups", daemon=True)
        self._thread.start()

    def note(self, flow: str, position: Offsets) -> None:
        """Take the position of a flow after a batch. Offsets of a topic that two clusters have are left out."""
        addresses = self._addresses[flow]
        with self._lock:
            for partition, offset in position.items():
                address = addresses.get(partition.topic)
                if address is not None:
                    self._new.setdefault((address, self._groups[flow]), {})[partition] = offset

    def stop(self) -> None:
        """Commit what is new, and stop."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._is_stopping.wait(PIPELINE_GROUP_INTERVAL_S):
            self._commit_new()
        self._commit_new()

    def _commit_new(self) -> None:
        with self._lock:
            new, self._new = self._new, {}
        silent: set[str] = set()
        for (address, group), offsets in new.items():
            if address in silent:
                continue
            try:
                self._commit(address, group, offsets)
                self._failed.discard(group)
            except (ApiError, ClientError) as error:
                if group not in self._failed:
                    log.warning("the progress of a flow is not shown in its consumer group %s: %s", group, error)
                self._failed.add(group)
                silent.add(address)


def _addresses(plan: FlowPlan) -> dict[str, str]:
    """Return where each topic of a flow is, unless two clusters have it."""
    found: dict[str, set[str]] = {}
    for address, topic in plan.topics_read:
        found.setdefault(topic, set()).add(address)
    return {topic: next(iter(addresses)) for topic, addresses in found.items() if len(addresses) == 1}


class GroupCommits:
    """Commits with one connection for each address, which is made again after an error."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = client
        self._admins: dict[str, Admin] = {}

    def commit(self, address: str, group: str, offsets: Offsets) -> None:
        """Set the committed offsets of a group."""
        try:
            if address not in self._admins:
                self._admins[address] = Admin(config={**_PATIENCE, **self._client, "bootstrap.servers": address})
            outcomes = self._admins[address].alter_group_offsets(group, offsets)
        except (ApiError, ClientError):
            self._forget(address)
            raise
        for error in outcomes.values():
            if error is not None:
                raise error

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._admins):
            self._forget(address)

    def _forget(self, address: str) -> None:
        admin = self._admins.pop(address, None)
        if admin is not None:
            admin.close()
