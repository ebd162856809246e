"""What goes wrong with a configuration."""

from collections.abc import Sequence


class ConfigError(Exception):
    """One option has a name or a value that cannot be used; over the wire it is INVALID_CONFIG."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message


class RequestError(ConfigError):
    """The option is fine, but it cannot be asked for in this way; over the wire it is INVALID_REQUEST."""


class InvalidConfigError(ConfigError):
    """Everything that is wrong with a set of options, told at once so that one edit can mend it."""

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        self.problems = tuple(problems)
        names = ", ".join(dict.fromkeys(problem.name for problem in problems))
        super().__init__(names, "; ".join(problem.message for problem in problems))
