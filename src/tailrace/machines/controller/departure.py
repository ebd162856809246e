"""The removal of a broker from the cluster, in steps: the controller may fail after any of them.

A broker that runs first loses its registration and its admission, and stays outside until it is restarted. Then other
brokers take over the partitions that it led, as after a crash. In the last step no state names it any longer, and the
cluster forgets it.
"""

from collections.abc import Iterator
from dataclasses import replace

from tailrace.base.invariant import invariant
from tailrace.base.limits import RECORDS_PER_COMMIT_MAX
from tailrace.machines.controller.election import RuleOf
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import (
    UNREGISTERED,
    BrokerAdmitted,
    BrokerForgotten,
    BrokerRemoved,
    PartitionRecord,
    Record,
)
from tailrace.machines.controller.settle import settle
from tailrace.protocol.errors import ApiError, ErrorCode


def decide_unregister(image: ClusterImage, broker_id: int, rule_of: RuleOf) -> list[Record]:
    """Decide the next step of the removal of a broker; call this again while the broker is known.

    The controller itself cannot be removed, because it has to carry out the later steps.
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
    leads = any(state.leader == broker_id for topic in image.topics.values() for state in topic.leadership.values())
    invariant(not leads, f"broker {broker_id} is forgotten while it leads a partition")
    return [*records, BrokerForgotten(broker_id)]


def _without(image: ClusterImage, broker_id: int) -> Iterator[PartitionRecord]:
    """Yield the states that name a broker as eligible to lead again, each without that broker.

    If no other replica has all committed records the broker stays named, so that nothing is lost if it comes back.
    """
    for topic in image.topics.values():
        for state in topic.leadership.values():
            elr, last = (
                tuple(other for other in brokers if other != broker_id) for brokers in (state.elr, state.last_known_elr)
            )
            if (elr, last) != (state.elr, state.last_known_elr) and (state.isr or elr):
                yield replace(state, elr=elr, last_known_elr=last)


def leaving(image: ClusterImage) -> list[int]:
    """Return the brokers whose removal has begun and is not finished."""
    return [broker_id for broker_id, epoch in image.admitted.items() if epoch == UNREGISTERED]
