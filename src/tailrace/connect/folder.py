"""The folders of connectors: each has its pipeline file and its checkpoints."""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class ConnectorFolder:
    """The files of one connector. Their owner alone can read them, because a pipeline file can contain passwords."""

    def __init__(self, data: Path, connector: str) -> None:
        self.path = data / _folder_name(connector)

    @property
    def checkpoints(self) -> Path:
        """The folder with the checkpoints of all flows."""
        return self.path / "checkpoints"

    def write_pipeline(self, documents: Sequence[Mapping[str, Any]]) -> Path:
        """Write the pipeline file."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._pipeline
        new = file.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as output:
            yaml.safe_dump_all(documents, output, sort_keys=False, explicit_start=True)
        new.replace(file)
        return file

    def read_pipeline(self) -> dict[str, dict[str, Any]]:
        """Return the flows of the pipeline file by name; there are none before the first start."""
        try:
            return {document["name"]: document for document in yaml.safe_load_all(self._pipeline.read_text())}
        except FileNotFoundError:
            return {}

    @property
    def _pipeline(self) -> Path:
        return self.path / "connector.yaml"

    def flows(self) -> list[Path]:
        """Return the checkpoints of the flows."""
        if not self.checkpoints.is_dir():
            return []
        return sorted(path for path in self.checkpoints.iterdir() if path.is_dir())

    def has_progress(self, flow: str) -> bool:
        """Return whether a flow has noted where its first batch begins, and will go on from its checkpoint."""
        checkpoint = self.checkpoints / flow
        return (checkpoint / "offsets" / "0").exists() or any(checkpoint.glob("commits/[0-9]*"))

    def forget_progress(self, flow: str = "") -> None:
        """Let one flow, or all flows, start anew."""
        shutil.rmtree(self.checkpoints / flow, ignore_errors=True)

    def remove(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.path, ignore_errors=True)


def _folder_name(connector: str) -> str:
    """Return the name of a folder that no other connector has, whatever is in its name."""
    if _PLAIN.fullmatch(connector):
        return connector
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", connector)[:60]
    return f"_{readable}_{hashlib.sha256(connector.encode()).hexdigest()[:16]}"
