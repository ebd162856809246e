"""The claims of a run to copies that keep offsets: the config of a copy that names its source and its run. Pure.

The leaders of a copy accept batches only with the claim that is set (docs/decisions/0017-a-copy-keeps-its-offsets.md).
A run sets its own claim when it starts, so that a task of an earlier run is refused from then on.
"""

from tailrace.client.metadata import Topic
from tailrace.spark.mirror.topic_plan import MIRROR_CLAIM

_SEPARATOR = "/"


def origin_of(source_id: str, topic: Topic) -> str:
    """Return the part of a claim that names the source: its cluster, and the topic by its id."""
    return f"{source_id}{_SEPARATOR}{topic.topic_id}"


def claim_text(origin: str, run_id: str) -> str:
    """Return the claim of a run."""
    return f"{origin}{_SEPARATOR}{run_id}"


def claim_problem(copy: str, claim: str, origin: str, *, has_records: bool) -> str | None:
    """Return why a topic of the target cannot be the copy of a source; None if it can."""
    if claim and claim.rpartition(_SEPARATOR)[0] != origin:
        return (
            f"topic {copy} in the target is the copy of another topic ({MIRROR_CLAIM}={claim}); delete it, or choose "
            "another name with --rename"
        )
    if not claim and has_records:
        return (
            f"topic {copy} in the target has records that no mirror with --keep-offsets has written; delete it, or "
            "choose another name with --rename"
        )
    return None
