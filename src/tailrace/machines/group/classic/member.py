"""A member of a classic group, as an immutable value."""

from dataclasses import dataclass

from tailrace.machines.group.record.classic import GroupMetadataMember

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member supports, the preferred one first: each a name and the member's metadata for it."""


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """The identity of a member, its protocols and its assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    # Soft state: the member waits for its first join, so it does not know its id and cannot send heartbeats yet.
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def metadata(self, protocol: str | None) -> bytes | None:
        """Return the metadata for this protocol, or None if the member does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), None)

    def to_record(self, protocol: str) -> GroupMetadataMember:
        """Build the entry of the member in the record of its group."""
        return GroupMetadataMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol) or b"",
            assignment=self.assignment,
        )


def member_of_record(value: GroupMetadataMember, protocol: str | None) -> ClassicGroupMember:
    """Load a member from the record of its group, which keeps the chosen protocol alone."""
    return ClassicGroupMember(
        member_id=value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.session_timeout if value.rebalance_timeout == -1 else value.rebalance_timeout,
        session_timeout_ms=value.session_timeout,
        protocols=((protocol or "", value.subscription),),
        assignment=value.assignment,
    )
