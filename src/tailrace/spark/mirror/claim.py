"""The claim of a run to a mirror, as the metadata of one committed offset. Pure.

It names the run that may copy, so that a run that was replaced never copies again: a task first takes its transactional
id, which fences older tasks, and then checks that the claim is still that of its run. A new run first writes its claim,
and then takes all transactional ids that any run has used. So a task of an older run either finds the new claim, or it
took its id before the new run did, and is fenced.
"""

import json
from dataclasses import asdict, dataclass, replace

from tailrace.spark.mirror.error import MirrorError, MirrorReplaced
from tailrace.spark.mirror.name import MirrorName


@dataclass(frozen=True, slots=True)
class Claim:
    """The run that has a mirror, the id of the source cluster, and the greatest number of tasks of any run."""

    run_id: str
    source_id: str
    task_count_max: int

    def encode(self) -> str:
        """Return the claim as text."""
        return json.dumps(asdict(self), separators=(",", ":"))


def decode_claim(text: str) -> Claim | None:
    """Return the claim in a text; None if it has none."""
    try:
        found = json.loads(text)
        return Claim(str(found["run_id"]), str(found["source_id"]), int(found["task_count_max"]))
    except (ValueError, TypeError, KeyError):
        return None


def next_claim(before: Claim | None, name: MirrorName, run_id: str, source_id: str, task_count: int) -> Claim:
    """Return the claim of a new run; raises `MirrorError` if the mirror copies from another cluster."""
    if before is None:
        return Claim(run_id, source_id, task_count)
    if before.source_id != source_id:
        raise MirrorError(
            f"the mirror {name} has copied from the cluster {before.source_id} so far, and --from is the cluster "
            f"{source_id}; give it another name with --from NAME=HOST:PORT"
        )
    return replace(before, run_id=run_id, task_count_max=max(before.task_count_max, task_count))


def check_claim(text: str | None, run_id: str, name: MirrorName) -> None:
    """Raise `MirrorReplaced` unless the claim is that of this run."""
    claim = None if text is None else decode_claim(text)
    if claim is None or claim.run_id != run_id:
        raise MirrorReplaced(f"another run of the mirror {name} has replaced this one")
