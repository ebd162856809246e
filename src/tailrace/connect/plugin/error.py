"""The error of configurations that cannot be used."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one setting. The message never contains a password."""

    name: str
    message: str


class ConfigError(Exception):
    """A configuration cannot be used; `problems` has each setting that is wrong, and why."""

    def __init__(self, problems: Iterable[Problem] = (), message: str | None = None) -> None:
        self.problems = tuple(problems)
        super().__init__(message or "; ".join(f"{problem.name}: {problem.message}" for problem in self.problems))
