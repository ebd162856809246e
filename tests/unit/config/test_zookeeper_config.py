"""The options that say where ZooKeeper is."""

import pytest

from runnel.config.broker import BrokerConfig
from runnel.config.error import ConfigError
from runnel.config.zookeeper import parse_connect


@pytest.mark.parametrize(
    ("text", "servers", "root"),
    [
        ("zk", "zk:2181", ""),
        ("zk:1", "zk:1", ""),
        ("a:1, b , c:3/", "a:1,b:2181,c:3", ""),
        ("a:1,b:2/runnel", "a:1,b:2", "/runnel"),
        ("a/x/y.z/", "a:2181", "/x/y.z"),
        ("[::1]:2181,127.0.0.1/k", "[::1]:2181,127.0.0.1:2181", "/k"),
    ],
)
def test_servers_and_path_are_told_apart(text: str, servers: str, root: str) -> None:
    assert parse_connect(text) == (servers, root)
    assert BrokerConfig({"zookeeper.connect": text}).zookeeper_connect == text


@pytest.mark.parametrize(
    "text", ["", "/path", "a:b", "a:0", "a:65536", "a:1:2", "a,,b", "a//b", "a/b c", "a/./b", "a/.."]
)
def test_what_names_no_server_or_no_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        BrokerConfig({"zookeeper.connect": text})


def test_access_for_one_needs_to_be_somebody() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl needs runnel\.zookeeper\.digest"):
        BrokerConfig({"zookeeper.set.acl": "true"})
    config = BrokerConfig({"zookeeper.set.acl": "true", "runnel.zookeeper.digest": "runnel:secret"})
    assert config.zookeeper_set_acl
    shown = {entry.name: entry.value for entry in config.entries()}
    assert shown["runnel.zookeeper.digest"] is None


@pytest.mark.parametrize("text", ["runnel", ":secret", "runnel:"])
def test_a_digest_is_a_user_and_a_password_and_never_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({"runnel.zookeeper.digest": text})
    assert repr(text) not in caught.value.message


def test_java_keystores_are_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="openssl pkcs12"):
        BrokerConfig({"zookeeper.ssl.keystore.type": "JKS"})
