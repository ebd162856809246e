"""The names of the objects that a sink writes. Pure.

Each batch has a manifest, whose name is determined by the flow, its checkpoint and the number of the batch. It lists
the objects of the batch, is written last, and only if it is not there yet: so it decides which attempt to write the
batch counts. The names of objects have a token of their attempt, so an attempt that was believed dead cannot change an
object that a manifest lists.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from tailrace.spark.error import ConnectorError

MANIFESTS = "_tailrace"
_OBJECT = re.compile(r".+-[0-9a-f]{12}-\d{9}-[0-9a-f]{8}-\d{5}-\d+-\d{3,}\.(?:avro|json|parquet)(?:\.gz)?")
_QUERY_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Written:
    """An object, with its rows and bytes."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchName:
    """A batch of a query, whose id is in the checkpoint of the flow."""

    flow: str
    query_id: str
    batch_id: int

    @property
    def _query(self) -> str:
        return f"{self.flow}-{self.query_id.replace('-', '')[:_QUERY_LENGTH]}"

    @property
    def stem(self) -> str:
        """The beginning of the names of all objects of the batch."""
        return f"{self._query}-{self.batch_id:09d}-"

    @property
    def manifest(self) -> str:
        """The name of the manifest."""
        return f"{MANIFESTS}/{self._query}/{self.batch_id:09d}.json"

    def object(self, token: str, task: int, attempt: int, number: int, suffix: str) -> str:
        """Return the name of an object that an attempt of a task writes."""
        return f"{self.stem}{token}-{task:05d}-{attempt}-{number:03d}.{suffix}"


def is_object_of_batch(name: str) -> bool:
    """Return whether a name is that of an object that counts only if a manifest lists it."""
    return _OBJECT.fullmatch(name.rpartition("/")[2]) is not None


def is_manifest(name: str) -> bool:
    """Return whether a name is that of a manifest."""
    return name.startswith(f"{MANIFESTS}/") and name.endswith(".json")


def is_hidden(name: str) -> bool:
    """Return whether a name is not one of data, as in Spark: a part of it begins with `_` or `.`."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of a batch, and the fingerprint of its plan, which those of earlier versions lack."""

    objects: tuple[Written, ...]
    plan: str | None = None


def write_manifest(batch_id: int, manifest: Manifest) -> bytes:
    """Return the content of a manifest."""
    fields: dict[str, Any] = {"version": 1, "batch": batch_id, "objects": [asdict(each) for each in manifest.objects]}
    return json.dumps(fields if manifest.plan is None else fields | {"plan": manifest.plan}).encode()


def read_manifest(name: str, content: bytes) -> Manifest:
    """Return a manifest; raises `ConnectorError` if it is damaged."""
    try:
        found = json.loads(content)
        objects = (Written(str(each["name"]), int(each["rows"]), int(each["bytes"])) for each in found["objects"])
        plan = found.get("plan")
        return Manifest(tuple(objects), None if plan is None else str(plan))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConnectorError(f"object {name} is not a manifest of a batch: {error}") from None
