"""Brokers that leave the cluster for good, in steps of which any may be the last that a controller does.

One that runs loses its registration and its admission first, and stays outside until it is started again. Then
others take over what it led, as after a death. At last nothing names it any more, and the cluster forgets it.
"""

from collections.abc import Iterator
from dataclasses import replace

from runnel.base.limits import RECORDS_PER_COMMIT_MAX
from runnel.machines.controller.election import RuleOf
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.record import (
    UNREGISTERED,
    BrokerAdmitted,
    BrokerForgotten,
    BrokerRemoved,
    PartitionRecord,
    Record,
)
from runnel.machines.controller.settle import settle
from runnel.protocol.errors import ApiError, ErrorCode


def decide_unregister(image: ClusterImage, broker_id: int, rule_of: RuleOf) -> list[Record]:
    """The next step by which a broker leaves; ask again while it is known.

    The controller itself is not sent away, for it has to see to the rest.
    """
    if not image.is_known(broker_id):
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    if broker_id == image.controller_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is the controller; stop it first.")
    if broker_id in image.brokers:
        return [BrokerAdmitted(broker_id, UNREGISTERED), BrokerRemoved(broker_id)]
    if group := next(settle(image, rule_of), None):
        return group
    records: list[Record] = [*_without(image, broker_id)]
    if len(records) > RECORDS_PER_COMMIT_MAX:
        return records[:RECORDS_PER_COMMIT_MAX]
    return [*records, BrokerForgotten(broker_id)]


def _without(image: ClusterImage, broker_id: int) -> Iterator[PartitionRecord]:
    """The states of partitions that name a broker as one that may lead again, without it.

    Where nobody else has everything it stays named: should it come back after all, nothing is lost.
    """
    for topic in image.topics.values():
        for state in topic.leadership.values():
            elr, last = (
                tuple(other for other in brokers if other != broker_id) for brokers in (state.elr, state.last_known_elr)
            )
            if (elr, last) != (state.elr, state.last_known_elr) and (state.isr or elr):
                yield replace(state, elr=elr, last_known_elr=last)


def leaving(image: ClusterImage) -> list[int]:
    """The brokers that were sent away and are not forgotten yet."""
    return [broker_id for broker_id, epoch in image.admitted.items() if epoch == UNREGISTERED]
