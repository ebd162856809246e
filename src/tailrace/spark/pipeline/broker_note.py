"""The note of the brokers where the query of a flow may have open transactions, in its checkpoint.

The file of a flow names these brokers only as long as the flow writes a topic there exactly once.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tailrace.spark.connector.durable import write_durably
from tailrace.spark.error import PipelineError

_FILE = "transactions.json"


def read_brokers(checkpoint: Path) -> set[str] | None:
    """Return the addresses of the brokers; None if an earlier version has written the checkpoint."""
    path = checkpoint / _FILE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PipelineError(f"the checkpoint file {path} cannot be read: {error}") from None
    return set(map(str, found))


def note_brokers(checkpoint: Path, brokers: Iterable[str]) -> None:
    """Note the brokers, unless they are noted."""
    wanted = set(brokers)
    if read_brokers(checkpoint) != wanted:
        write_durably(checkpoint / _FILE, json.dumps(sorted(wanted)))
