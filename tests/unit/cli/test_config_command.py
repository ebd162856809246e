"""`tailrace config`, in a pipe."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def config(run: Run, bootstrap: str) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        return run("config", *arguments, "--bootstrap-server", bootstrap)

    return call


@pytest.fixture
def lone(run: Run) -> Iterator[Run]:
    """Configs of a broker of its own, which no other test sees."""
    with Broker() as broker:

        def call(*arguments: str) -> tuple[int, str, str]:
            return run(*arguments, "--bootstrap-server", broker.bootstrap_servers)

        yield call


@pytest.fixture
def page_views(run: Run, bootstrap: str, topic: str) -> str:
    run("topic", "create", topic, "--bootstrap-server", bootstrap)
    return topic


def test_configs_of_a_topic_are_set_listed_and_deleted(config: Run, page_views: str) -> None:
    this = ("topic", page_views)
    changed = f"set retention.ms, cleanup.policy of topic {page_views}\n"
    assert config("set", *this, "retention.ms=1000", "cleanup.policy=compact,delete") == (0, changed, "")
    own = (
        f"{page_views}\tcleanup.policy\tcompact,delete\tDYNAMIC_TOPIC_CONFIG\tDEFAULT_CONFIG:log.cleanup.policy=delete\n"
        f"{page_views}\tretention.ms\t1000\tDYNAMIC_TOPIC_CONFIG\t-\n"
    )
    assert config("list", *this) == (0, own, "")
    assert own in config("list", "topic")[1]
    assert config("list", *this, "segment.bytes")[1] == (
        f"{page_views}\tsegment.bytes\t1073741824\tDEFAULT_CONFIG\tDEFAULT_CONFIG:log.segment.bytes=1073741824\n"
    )
    everything = config("list", *this, "--all")[1].splitlines()
    assert set(own.splitlines()) < set(everything)
    deleted = f"deleted retention.ms of topic {page_views}\n"
    assert config("delete", *this, "retention.ms") == (0, deleted, "")
    assert config("list", *this)[1] == own.splitlines(keepends=True)[0]


def test_json_names_sources_and_synonyms(config: Run, page_views: str) -> None:
    changed = config("set", "topic", page_views, "cleanup.policy=compact", "--json")[1]
    assert json.loads(changed) == {"type": "topic", "name": page_views, "set": ["cleanup.policy"]}
    assert json.loads(config("list", "topic", page_views, "--json")[1]) == [
        {
            "type": "topic",
            "name": page_views,
            "configs": [
                {
                    "name": "cleanup.policy",
                    "value": "compact",
                    "source": "DYNAMIC_TOPIC_CONFIG",
                    "sensitive": False,
                    "read_only": False,
                    "synonyms": [
                        {"name": "cleanup.policy", "value": "compact", "source": "DYNAMIC_TOPIC_CONFIG"},
                        {"name": "log.cleanup.policy", "value": "delete", "source": "DEFAULT_CONFIG"},
                    ],
                }
            ],
        }
    ]


def test_a_broker_has_configs_and_so_have_all(lone: Run) -> None:
    lone("topic", "create", "page_views")
    assert lone("config", "set", "broker", "1", "log.cleaner.backoff.ms=7000")[0] == 0
    everywhere = "set log.cleaner.backoff.ms, log.retention.ms of broker <default>\n"
    changes = ("log.cleaner.backoff.ms=8000", "log.retention.ms=5000")
    assert lone("config", "set", "broker", "--default", *changes) == (0, everywhere, "")
    default = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert lone("config", "list", "broker")[1].splitlines() == [
        f"1\tlog.cleaner.backoff.ms\t7000\tDYNAMIC_BROKER_CONFIG\t{default}:log.cleaner.backoff.ms=8000, "
        "DEFAULT_CONFIG:log.cleaner.backoff.ms=15000",
        f"<default>\tlog.cleaner.backoff.ms\t8000\t{default}\t-",
        f"<default>\tlog.retention.ms\t5000\t{default}\t-",
        f"<default>\tmin.insync.replicas\t1\t{default}\t-",  # always set, as in Kafka (KIP-966)
    ]
    assert f"\tretention.ms\t5000\t{default}\t" in lone("config", "list", "topic", "page_views", "retention.ms")[1]
    assert lone("config", "delete", "broker", "1", "log.cleaner.backoff.ms")[0] == 0
    names = ("log.cleaner.backoff.ms", "log.retention.ms")
    deleted = json.loads(lone("config", "delete", "broker", "--default", *names, "--json")[1])
    assert deleted == {"type": "broker", "name": None, "deleted": list(names)}
    assert lone("config", "list", "broker", "--default")[1] == f"<default>\tmin.insync.replicas\t1\t{default}\t-\n"


def test_a_group_has_configs(config: Run) -> None:
    assert config("set", "group", "a=b", "consumer.session.timeout.ms=50000")[0] == 0
    line = "a=b\tconsumer.session.timeout.ms\t50000\tDYNAMIC_GROUP_CONFIG\t"
    assert config("list", "group")[1].startswith(line)
    assert config("list", "group", "a=b")[1].startswith(line)
    assert config("delete", "group", "a=b", "consumer.session.timeout.ms")[0] == 0
    assert config("list", "group") == (0, "", "")


def test_secrets_come_from_a_file_and_are_not_shown(lone: Run, tmp_path: Path) -> None:
    file = tmp_path / "secret.properties"
    file.write_text("ssl.key.password=swordfish\n")
    assert lone("config", "set", "broker", "1", "--file", str(file)) == (0, "set ssl.key.password of broker 1\n", "")
    listed = lone("config", "list", "broker", "1")[1]
    assert listed == "1\tssl.key.password\t(hidden)\tDYNAMIC_BROKER_CONFIG\t-\n"
    assert "swordfish" not in lone("config", "list", "broker", "1", "--all", "--json")[1]
    file.write_text("a=\\u12\n")
    status, _, error = lone("config", "set", "broker", "1", "--file", str(file))
    assert status == 1
    assert error.startswith(f"tailrace: {file}: line 1: malformed")
    missing = tmp_path / "missing"
    assert (
        lone("config", "set", "broker", "1", "--file", str(missing))[2]
        == f"tailrace: {missing}: No such file or directory\n"
    )
    assert lone("config", "delete", "broker", "1", "ssl.key.password")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("set", "topic", "{topic}", "retention.mss=1"),
            "topic {topic}: Unknown topic config name: retention.mss (did",
        ),
        (("set", "topic", "{topic}", "retention.ms=x"), "topic {topic}: Invalid value 'x' for retention.ms"),
        (
            ("list", "topic", "{topic}", "retention.mss"),
            "topic {topic} has no config retention.mss (did you mean reten",
        ),
        (("delete", "topic", "{topic}", "retention.ms"), "topic {topic} does not set retention.ms\n"),
        (("list", "topic", "{topic}x"), "topic {topic}x does not exist (did you mean {topic}?)"),
        (("set", "topic", "{topic}x", "retention.ms=1"), "topic {topic}x does not exist (did you mean {topic}?)"),
        (
            ("set", "broker", "--default", "log.retention.m=1"),
            "broker <default>: Unknown broker config name: log.reten",
        ),
        (("set", "broker", "1", "log.dirs=/"), "broker 1: Cannot update this config dynamically: log.dirs"),
        (("list", "broker", "9"), "there is no broker 9: the cluster has broker 1\n"),
        (("set", "group", "g", "consumer.sesion.timeout.ms=1"), "(did you mean consumer.session.timeout.ms?)"),
    ],
)
def test_a_mistake_is_told_with_the_resource(
    config: Run, page_views: str, arguments: tuple[str, ...], message: str
) -> None:
    status, output, error = config(*(word.format(topic=page_views) for word in arguments))
    assert (status, output) == (1, "")
    assert error.startswith("tailrace: ")
    assert error.count("\n") == 1
    assert message.format(topic=page_views) in error


def test_a_misspelt_config_that_is_to_be_deleted_is_told_the_right_one(config: Run, page_views: str) -> None:
    """A broker ignores the deletion of a config that is not set, so the mistake went unnoticed."""
    config("set", "topic", page_views, "retention.ms=1000")
    status, output, error = config("delete", "topic", page_views, "retention.mss")
    assert (status, output) == (1, "")
    assert f"topic {page_views} does not set retention.mss (did you mean retention.ms?)" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list",), "Missing argument"),
        (("list", "topics"), "'topics' is not one of 'topic', 'broker', 'group'"),
        (("list", "topic", "t", "retention.ms", "--all"), "--all lists all configs"),
        (("list", "topic", "--default"), "--default is for brokers: a topic has no default of its own"),
        (("list", "topic", ""), "the name of the topic is empty"),
        (("set", "topic"), "name the topic"),
        (("set", "topic", "t"), "set at least one config"),
        (("set", "topic", "t", "retention.ms"), "'retention.ms' is not CONFIG=VALUE"),
        (("set", "topic", "t", "retention.ms=1", "retention.ms=2"), "retention.ms is given twice"),
        (("set", "broker"), "name the broker, or set --default for all brokers"),
        (("set", "broker", "log.retention.ms=1"), "'log.retention.ms=1' is not the id of a broker"),
        (("delete", "topic", "t"), "name the configs to delete"),
    ],
)
def test_wrong_calls(config: Run, arguments: tuple[str, ...], message: str) -> None:
    status, output, error = config(*arguments)
    assert (status, output) == (2, "")
    assert message in error
