"""The options that say where ZooKeeper is."""

import pytest

from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.zookeeper import parse_connect


@pytest.mark.parametrize(
    ("text", "servers", "root"),
    [
        ("zk", "zk:2181", ""),
        ("zk:1", "zk:1", ""),
        ("a:1, b , c:3/", "a:1,b:2181,c:3", ""),
        ("a:1,b:2/tailrace", "a:1,b:2", "/tailrace"),
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
    needed = r"zookeeper\.set\.acl needs tailrace\.zookeeper\.sasl\.jaas\.config or tailrace\.zookeeper\.digest"
    with pytest.raises(ConfigError, match=needed):
        BrokerConfig({"zookeeper.set.acl": "true"})
    for name in ("tailrace.zookeeper.digest", "tailrace.zookeeper.sasl.jaas.config"):
        config = BrokerConfig({"zookeeper.set.acl": "true", name: "tailrace:secret"})
        assert config.zookeeper_set_acl
        shown = {entry.name: entry.value for entry in config.entries()}
        assert shown[name] is None


@pytest.mark.parametrize("text", ["tailrace", ":secret", "tailrace:"])
def test_a_digest_is_a_user_and_a_password_and_never_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({"tailrace.zookeeper.digest": text})
    assert repr(text) not in caught.value.message


def test_java_keystores_are_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="openssl pkcs12"):
        BrokerConfig({"zookeeper.ssl.keystore.type": "JKS"})
