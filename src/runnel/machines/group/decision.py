"""What a group machine decides: records of `__consumer_offsets`, replies and timers."""

from dataclasses import dataclass

from runnel.machines import decision
from runnel.machines.log_record import Record


@dataclass(slots=True)
class Decision(decision.Decision[Record]):
    """What is to be done for groups; `machines.decision` says in which order."""
