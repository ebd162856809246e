"""The three sources of a broker's options, which goes before which, and how their errors say where they stand."""

from pathlib import Path

import pytest

from tailrace.config import ConfigError, InvalidConfigError, load_broker_config
from tailrace.config.broker import broker_options
from tailrace.config.load import RESERVED_VARIABLES, environment_name


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nlog.retention.ms=2\nmessage.max.bytes=2\n")
    return path


def test_overrides_go_before_the_environment_before_the_file_before_the_default(file: Path) -> None:
    environment = {"TAILRACE_LOG_RETENTION_MS": "3", "TAILRACE_NUM_PARTITIONS": "3", "HOME": "/root"}
    config = load_broker_config(file, environment, ["num.partitions=4", "node.id=4", "node.id = 5"])
    assert config.num_partitions == 4
    assert config.log_retention_ms == 3
    assert config.message_max_bytes == 2
    assert config.node_id == 5
    assert config.default_replication_factor == 1


def test_nothing_given_means_defaults() -> None:
    assert load_broker_config(None, {}, []).num_partitions == 1


def test_a_value_may_hold_equals_signs_and_be_empty() -> None:
    config = load_broker_config(None, {}, ["broker.rack=a=b", "controller.listener.names="])
    assert config.broker_rack == "a=b"
    assert config.controller_listener_names == ()


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("log.retention.ms", "TAILRACE_LOG_RETENTION_MS"),
        ("listeners", "TAILRACE_LISTENERS"),
        ("tailrace.request.read.timeout.ms", "TAILRACE_REQUEST_READ_TIMEOUT_MS"),
    ],
)
def test_names_of_environment_variables(name: str, variable: str) -> None:
    assert environment_name(name) == variable


def test_no_two_options_share_an_environment_variable() -> None:
    variables = [environment_name(name) for name in broker_options()]
    assert len(set(variables)) == len(variables)
    assert not RESERVED_VARIABLES & set(variables)


@pytest.mark.parametrize("variable", sorted(RESERVED_VARIABLES))
def test_reserved_variables_are_left_alone(variable: str) -> None:
    load_broker_config(None, {variable: "anything"}, [])


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (
            "TAILRACE_NUM_PARTITION",
            "no config has this name (did you mean TAILRACE_NUM_PARTITIONS?)",
        ),
        ("TAILRACE_PORT", "no config has this name"),
        ("TAILRACE_SERVICE_HOST", "no config has this name"),
        ("TAILRACE_log_retention_ms", "no config has this name"),
    ],
)
def test_unknown_variables_are_named_and_ignored(variable: str, message: str) -> None:
    """Kubernetes sets variables such as TAILRACE_PORT for a service of that name, and the broker did not start."""
    config = load_broker_config(None, {variable: "tcp://127.0.0.1:9092"}, [])
    assert config.notices[0] == f"environment variable {variable} is ignored: {message}"


def test_an_unsupported_option_in_the_environment_says_why() -> None:
    with pytest.raises(
        ConfigError, match=r"TAILRACE_METRIC_REPORTERS: metric.reporters is a Kafka option that Tailrace"
    ):
        load_broker_config(None, {"TAILRACE_METRIC_REPORTERS": "a.B"}, [])


def test_everything_wrong_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# first\nnum.partitions=none\n\nnum.partitons=1\n")
    with pytest.raises(InvalidConfigError) as caught:
        load_broker_config(
            path, {"TAILRACE_LOG_ROLL_MS": "0", "TAILRACE_OOPS": "1"}, ["nonsense", "ssl.engine.factory.class=hunter2"]
        )
    assert [problem.message for problem in caught.value.problems] == [
        "--set nonsense: must be NAME=VALUE",
        f"{path}:4: Unknown broker config name: num.partitons (did you mean num.partitions?)",
        "--set ssl.engine.factory.class: ssl.engine.factory.class is a Kafka option that Tailrace does not support: "
        "Tailrace does not load Java classes",
        f"{path}:2: Invalid value 'none' for num.partitions: must be a 32-bit whole number",
        "environment variable TAILRACE_LOG_ROLL_MS: Invalid value '0' for log.roll.ms: must be at least 1",
    ]


def test_the_name_of_an_option_is_said_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_broker_config(None, {}, ["listeners=PLAINTEXT://nonsense"])
    assert caught.value.message.startswith("--set listeners: 'PLAINTEXT://nonsense' is not of the form")


def test_a_problem_between_options_is_placed_too(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("listeners=SSL://:9092\n")
    with pytest.raises(ConfigError) as caught:
        load_broker_config(path, {}, [])
    assert caught.value.message.startswith(f"{path}:1: listeners: SSL://:9092 uses TLS and has no key")


def test_a_name_set_twice_in_a_file_is_announced(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nnum.io.threads=1\nnum.partitions=3\n")
    config = load_broker_config(path, {}, [])
    assert config.num_partitions == 3
    assert config.notices[0] == f"{path}:3: num.partitions is set again and replaces the earlier value"
    assert config.notices[1].startswith("num.io.threads is accepted but has no effect")


def test_a_file_that_cannot_be_read_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "missing", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError) as caught:
            load_broker_config(path, {}, [])
        assert caught.value.message == f"cannot read {path}: {reason}"


def test_a_malformed_file_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=1\nbroker.rack=\\u00\n")
    with pytest.raises(ConfigError, match=r"server.properties:2: malformed"):
        load_broker_config(path, {}, [])
