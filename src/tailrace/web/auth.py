"""Users of an HTTP service in a file."""

from collections.abc import Mapping
from pathlib import Path

Users = Mapping[str, str]
"""Passwords by user."""


class UserFileError(ValueError):
    """A file of users that cannot be used. The message says which and why."""


def read_users(path: Path) -> Users:
    """Return the users of a file with one `NAME:PASSWORD` in each line."""
    if path.stat().st_mode & 0o077:
        raise UserFileError(f"{path} holds passwords and can be read by other users: run `chmod 600 {path}`")
    users: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not (name and colon and password):
            raise UserFileError(f"{path}, line {number}: not NAME:PASSWORD")
        users[name] = password
    if not users:
        raise UserFileError(f"{path} has no users")
    return users
