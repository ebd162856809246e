"""What is killed in a run, and when: drawn from a seed before the run, so that another run can have the same kills.

Each kill waits for one of the flows. Half of all kills strike anywhere, some time after that flow has written
something. The others strike while a task or the driver of that flow stands still at one of the places of `Moment`,
which are too short to be met by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import NamedTuple

PAUSES_S = (0.05, 0.5, 2.0)  # at most; the first ones hit the end of a batch, and others anything
DOWN_S = (0.5, 2.0, 8.0)  # at most; after the last of these another broker leads


class Moment(StrEnum):
    """Where a batch is when something is killed."""

    ANYWHERE = "anywhere"
    PREPARED = "prepared"
    """A task has written its rows, and the driver does not know."""
    UNDECIDED = "undecided"
    """All tasks have written their rows, and the sink has not decided that they count."""
    BETWEEN = "between"
    """One transaction of a batch is committed, and another is not."""
    COMMITTED = "committed"
    """The rows of the batch count, and Spark does not know."""


class Kill(NamedTuple):
    """One kill. `choice`, from 0 to 1, says which of several processes is meant."""

    number: int
    target: str
    moment: Moment
    choice: float
    pause_s: float
    down_s: float
    is_survived: bool
    """Whether the process that stands still outlives the kill of its driver, and goes on when the next one is at work.
    For a worker: whether any worker is killed, or the one that stands still."""
    flow: str


MOMENTS = (
    *(Moment.BETWEEN, Moment.ANYWHERE),
    *(Moment.PREPARED, Moment.ANYWHERE),
    *(Moment.UNDECIDED, Moment.ANYWHERE),
)
"""The moments of transactions that are committed one by one."""


def plan_kills(
    seed: int, count: int, targets: Sequence[str], flows: Sequence[str], moments: Sequence[Moment] = MOMENTS
) -> list[Kill]:
    """So many kills, with each target as often as it is named, and each at every moment in turn."""
    random, random_flow = Random(seed), Random(f"{seed} flows")  # so kills are the same for any number of flows
    pairs = [(targets[number % len(targets)], number // len(targets) % len(moments)) for number in range(count)]
    random.shuffle(pairs)
    return [
        Kill(
            number,
            target,
            moments[moment],
            random.random(),
            random.uniform(0, random.choice(PAUSES_S)),
            random.uniform(0, random.choice(DOWN_S)),
            random.random() < 0.5,
            random_flow.choice(flows),
        )
        for number, (target, moment) in enumerate(pairs, 1)
    ]
