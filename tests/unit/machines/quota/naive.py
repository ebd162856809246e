"""A model of quotas that is slow and obvious: it looks at all entities, and adds up all that was ever taken."""

from typing import NamedTuple

from tailrace.machines.quota.entity import DEFAULT, Part, QuotaEntity
from tailrace.machines.quota.table import Identity, Limit


def find(rates: dict[QuotaEntity, float], user: str, client_id: str) -> Limit | None:
    """The quota of the entity that fits best: first by its user, then by its client id."""
    fitting = [entity for entity in rates if _fits(entity.user, user) and _fits(entity.client_id, client_id)]
    if not fitting:
        return None
    best = max(fitting, key=lambda entity: (_rank(entity.user), _rank(entity.client_id)))
    identity = Identity(
        None if best.user is None else user,
        None if best.client_id is None else client_id,
    )
    return Limit(rates[best], identity)


def _fits(part: Part, name: str) -> bool:
    return part is None or part is DEFAULT or part == name


def _rank(part: Part) -> int:
    return 0 if part is None else 1 if part is DEFAULT else 2


class Taken(NamedTuple):
    """An amount, and when it was taken."""

    at_ms: int
    amount: float


def rest_ms(taken: list[Taken], rate: float, burst_s: float, now_ms: int) -> float:
    """How long to pause: until no stretch of time before it had more than the burst and what the rate allows."""
    excess = 0.0
    for index, first in enumerate(taken):
        amount = sum(other.amount for other in taken[index:])
        excess = max(excess, amount - burst_s * rate - (now_ms - first.at_ms) / 1000 * rate)
    return excess / rate * 1000
