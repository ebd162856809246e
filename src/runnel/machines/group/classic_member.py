"""A member of a classic group."""

from dataclasses import dataclass

from runnel.machines.group.record.classic import GroupMetadataMember

Protocols = tuple[tuple[str, bytes], ...]
"""Ways of dividing the work, the most liked first: a name, and what the member says about itself in that way."""


@dataclass(slots=True)
class ClassicGroupMember:
    """Who a member is, what it can do, and what it has been given."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    # Soft: it joins for the first time, so it does not know its id and cannot send heartbeats yet.
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def metadata(self, protocol: str | None) -> bytes | None:
        """What the member says about itself in this protocol, or None if it does not know it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), None)

    def to_record(self, protocol: str, assignment: bytes) -> GroupMetadataMember:
        """The member as it stands in the record of its group."""
        return GroupMetadataMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol) or b"",
            assignment=assignment,
        )


def member_of_record(value: GroupMetadataMember, protocol: str | None) -> ClassicGroupMember:
    """The member that a record tells of; of its protocols only the chosen one is kept."""
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
