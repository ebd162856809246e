"""The configuration of a broker from its three sources: `--set`, the environment and the file, strongest first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailrace.base.variable import BOOTSTRAP_VARIABLE, REGISTRY_USER_VARIABLE, REGISTRY_VARIABLE
from tailrace.config.broker import BrokerConfig, broker_options
from tailrace.config.configuration import suggestion
from tailrace.config.error import ConfigError, InvalidConfigError
from tailrace.config.properties import PropertiesError, read_properties
from tailrace.config.refusal import broker_refusal

ENVIRONMENT_PREFIX = "TAILRACE_"

RESERVED_VARIABLES = frozenset(
    {
        BOOTSTRAP_VARIABLE,
        REGISTRY_VARIABLE,
        REGISTRY_USER_VARIABLE,
        "TAILRACE_CONFLUENT_JARS",
        "TAILRACE_KAFKA_CACHE",
        "TAILRACE_NO_DOWNLOAD",
        "TAILRACE_PURE_PYTHON",
        "TAILRACE_TEST_TARGET",
    }
)
"""Variables that are not broker options: they belong to the command line, the build and the tests."""

_PORT = "port"
"""A former option of Kafka. Kubernetes sets a variable of that name for a service called tailrace."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One name and text, with a description of its source."""

    name: str
    text: str
    origin: str


def load_broker_config(
    properties_file: Path | None, environment: Mapping[str, str], overrides: Sequence[str]
) -> BrokerConfig:
    """Return the configuration, or raise `ConfigError` with all errors and their sources."""
    problems: list[ConfigError] = []
    settings: dict[str, Setting] = {}
    notices: list[str] = []
    for setting in _file_settings(properties_file, problems):
        if setting.name in settings:
            notices.append(f"{setting.origin}: {setting.name} is set again and replaces the earlier value")
        settings[setting.name] = setting
    from_environment = _environment_settings(environment, problems, notices)
    for setting in (*from_environment, *_override_settings(overrides, problems)):
        settings[setting.name] = setting
    try:
        config = BrokerConfig({name: setting.text for name, setting in settings.items()})
    except ConfigError as error:
        raise InvalidConfigError([*problems, *_located(error, settings)]) from None
    if problems:
        raise InvalidConfigError(problems)
    return config.with_notices(notices)


def environment_name(name: str) -> str:
    """Return the environment variable of an option: TAILRACE_LOG_RETENTION_MS for log.retention.ms."""
    return ENVIRONMENT_PREFIX + name.removeprefix("tailrace.").replace(".", "_").upper()


def _file_settings(path: Path | None, problems: list[ConfigError]) -> Iterator[Setting]:
    if path is None:
        return
    try:
        properties = read_properties(path)
    except PropertiesError as error:
        problems.append(ConfigError(str(path), f"{path}:{error.line}: {error.message}"))
        return
    except OSError as error:
        problems.append(ConfigError(str(path), f"cannot read {path}: {error.strerror}"))
        return
    for entry in properties:
        yield Setting(entry.name, entry.value, f"{path}:{entry.line}")


def _environment_settings(
    environment: Mapping[str, str], problems: list[ConfigError], notices: list[str]
) -> Iterator[Setting]:
    names = {environment_name(name): name for name in broker_options()}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in RESERVED_VARIABLES:
            continue
        if variable in names:
            yield Setting(names[variable], text, f"environment variable {variable}")
            continue
        # Not an option: use the plain spelling, so that a refused option reports its reason.
        guess = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
        refusal = None if guess == _PORT else broker_refusal(guess)
        if refusal is not None:
            problems.append(ConfigError(variable, f"environment variable {variable}: {refusal}"))
        else:
            # Without the prefix, which would make short names look alike.
            own_names = [name.removeprefix(ENVIRONMENT_PREFIX) for name in names]
            hint = suggestion(variable.removeprefix(ENVIRONMENT_PREFIX), own_names, prefix=ENVIRONMENT_PREFIX)
            notices.append(f"environment variable {variable} is ignored: no config has this name{hint}")


def _override_settings(overrides: Sequence[str], problems: list[ConfigError]) -> Iterator[Setting]:
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            problems.append(ConfigError(override, f"--set {override}: must be NAME=VALUE"))
        else:
            yield Setting(name.strip(), text, f"--set {name.strip()}")


def _located(error: ConfigError, settings: Mapping[str, Setting]) -> Iterator[ConfigError]:
    for problem in error.problems if isinstance(error, InvalidConfigError) else (error,):
        setting = settings.get(problem.name)
        origin = "" if setting is None else f"{setting.origin}: "
        message = problem.message
        if origin.endswith(f" {problem.name}: "):
            message = message.removeprefix(f"{problem.name}: ")  # one name is enough
        yield ConfigError(problem.name, f"{origin}{message}")
