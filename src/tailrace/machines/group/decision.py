"""The decision of a group coordinator: records of `__consumer_offsets`, replies and timers."""

from dataclasses import dataclass

from tailrace.machines import decision
from tailrace.machines.log_record import Record


@dataclass(slots=True)
class Decision(decision.Decision[Record]):
    """A decision about groups; `machines.decision` has the order in which it is carried out."""
