"""The errors of a configuration."""

from collections.abc import Sequence


class ConfigError(Exception):
    """The name or value of one option is not valid; clients get INVALID_CONFIG."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message


class RequestError(ConfigError):
    """The option is valid but cannot be changed in this way; clients get INVALID_REQUEST."""


class InvalidConfigError(ConfigError):
    """All errors of a set of options, reported together so that one edit can correct them."""

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        self.problems = tuple(problems)
        names = ", ".join(dict.fromkeys(problem.name for problem in problems))
        super().__init__(names, "; ".join(problem.message for problem in problems))
