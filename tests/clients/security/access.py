"""How a client reaches a broker: what `login.md` says about the file that programs read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Access:
    """An address, and everything that a client needs to be let in there. Empty is what a case does not need."""

    bootstrap: str
    protocol: str
    client_id: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    is_delegation_token: bool = False
    trust: str = ""
    certificate: str = ""
    key: str = ""
    both: str = ""

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def write(self, folder: Path) -> Path:
        """Write the file for a program in another language, with its token in a file beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        written: dict[str, Any] = asdict(self)
        if self.token:
            (folder / "token.jwt").write_text(self.token)
            written["token_file"] = str(folder / "token.jwt")
        path = folder / "access.json"
        path.write_text(json.dumps(written))
        return path


def read_access(path: str) -> Access:
    """Return what `Access.write` has written."""
    found = json.loads(Path(path).read_text())
    return Access(**{field.name: found[field.name] for field in fields(Access)})
