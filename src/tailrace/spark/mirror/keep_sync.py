"""The copies that keep offsets, in the target: which topics may become one, and the claims of this run to them."""

from collections.abc import Mapping

from tailrace.client.admin.core import Admin, ResourceType
from tailrace.client.metadata import Topic
from tailrace.client.offset import LATEST
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.mirror.keep_claim import claim_problem, claim_text, origin_of
from tailrace.spark.mirror.topic_plan import MIRROR_CLAIM


class KeepSync:
    """Claims copies for one run."""

    def __init__(self, target: Admin, source_id: str, run_id: str) -> None:
        self.claims: dict[str, str] = {}
        """The claim of each copy, set or to be set."""
        self._target = target
        self._source_id = source_id
        self._run_id = run_id
        self._unset: set[str] = set()

    async def look(
        self, names: Mapping[str, str], found: Mapping[str, Topic], there: Mapping[str, Topic]
    ) -> dict[str, str]:
        """Return why some topics of the source cannot be copied with their offsets; changes nothing."""
        problems: dict[str, str] = {}
        for name, copy in names.items():
            origin = origin_of(self._source_id, found[name])
            claim = claim_text(origin, self._run_id)
            if self.claims.get(copy) == claim:
                continue
            problem = await self._problem(there[copy], origin) if copy in there else None
            if problem is not None:
                problems[name] = problem
                continue
            self.claims[copy] = claim
            if copy in there:
                self._unset.add(copy)
        return problems

    async def _problem(self, copy: Topic, origin: str) -> str | None:
        configs = await self._target.describe_configs(ResourceType.TOPIC, copy.name)
        claim = next((config.value or "" for config in configs if config.name == MIRROR_CLAIM), "")
        partitions = dict.fromkeys(range(len(copy.partitions)), LATEST)
        ends = {} if claim else await self._target.list_offsets(copy.name, partitions)
        return claim_problem(copy.name, claim, origin, has_records=any(at.offset > 0 for at in ends.values()))

    async def take(self) -> dict[str, str]:
        """Claim the copies that exist; return why some of them cannot be claimed."""
        problems: dict[str, str] = {}
        for copy in sorted(self._unset):
            try:
                await self._target.alter_configs(ResourceType.TOPIC, copy, {MIRROR_CLAIM: self.claims[copy]})
                self._unset.discard(copy)
            except ApiError as error:
                problems[copy] = refusal(copy, error)
        return problems

    def forget(self, copy: str) -> None:
        """Look at a copy again, which could not be created or claimed."""
        self.claims.pop(copy, None)
        self._unset.discard(copy)


def refusal(copy: str, error: ApiError) -> str:
    """Return the text for an error upon setting a claim."""
    if error.code is ErrorCode.INVALID_CONFIG and MIRROR_CLAIM in str(error):
        return f"topic {copy} cannot keep its offsets: --keep-offsets needs a target that is a Tailrace cluster"
    return f"topic {copy} cannot be claimed in the target: {error}"
