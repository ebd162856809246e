"""Brokers whose metadata is in ZooKeeper, or cannot be there."""

import sys
from pathlib import Path
from uuid import uuid4

import pytest
from tests.port import free_port
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess
from tests.unit.sample import ManualClock

from tailrace.base.clock import SystemClock
from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.coordination.layout import CLUSTER_ID
from tailrace.coordination.store import StoreUnreachableError
from tailrace.machines.controller.topic import NewTopic
from tailrace.runtime.metadata_store import make_zookeeper_store, open_store
from tailrace.runtime.opener import start_broker
from tailrace.storage.memory_fs import MemoryFileSystem

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"


def config(folder: Path, **options: str) -> BrokerConfig:
    texts = {name.replace("_", "."): text for name, text in options.items()}
    return BrokerConfig({"node.id": "1", "log.dirs": str(folder), **texts})


async def test_a_broker_finds_its_topics_in_zookeeper_again(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    root = f"/{uuid4().hex}"
    settings = config(tmp_path / "data", zookeeper_connect=f"{zookeeper.address}{root}")
    broker = await start_broker(settings)
    cluster_id = broker.cluster_id
    await broker.controller.create_topic(NewTopic("t", 3, 1), broker.topic_defaults)
    await broker.stop()
    assert not list((tmp_path / "data").glob("*.sqlite*"))
    again = await start_broker(settings)
    assert again.cluster_id == cluster_id
    assert again.image.topics["t"].partition_count == 3
    node = await again.metadata.store.get(CLUSTER_ID)
    assert node is not None
    await again.stop()


async def test_a_zookeeper_that_is_not_there_is_waited_for_and_then_named(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    settings = config(tmp_path, zookeeper_connect=address, zookeeper_connection_timeout_ms="200")
    with pytest.raises(StoreUnreachableError, match="did not answer within 200 ms"):
        await open_store(settings, MemoryFileSystem(), SystemClock())


async def test_without_kazoo_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tailrace.coordination.zookeeper.zookeeper", None)
    with pytest.raises(ConfigError, match=r"install the extra tailrace\[cluster\]"):
        make_zookeeper_store(config(tmp_path, zookeeper_connect="zk"), ManualClock())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secret", "this is not a known login module; known are org.apache.zookeeper.server.auth.DigestLoginModule"),
        ("org.apache.kafka.common.security.plain.PlainLoginModule required password=secret;", "is not a known login"),
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", r"GSSAPI \(Kerberos\) is not"),
        (f"{DIGEST} required username=a;", "has no option password"),
        (f'{DIGEST} required username="" password=secret;', "has no option username"),
        (f'{DIGEST} required username=a password="secret', "the quote has no end on its line"),
    ],
)
def test_a_login_at_zookeeper_that_is_none_is_an_error_without_secrets(text: str, words: str) -> None:
    name = "tailrace.zookeeper.sasl.jaas.config"
    with pytest.raises(ConfigError, match=words) as caught:
        make_zookeeper_store(BrokerConfig({"zookeeper.connect": "zk", name: text}), ManualClock())
    assert caught.value.name == name
    assert name in caught.value.message
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("option", "content"),
    [
        ("zookeeper.ssl.truststore.location", None),
        ("zookeeper.ssl.truststore.location", "no certificate"),
        ("zookeeper.ssl.keystore.location", None),
        ("zookeeper.ssl.keystore.location", "no key"),
    ],
)
async def test_files_of_tls_that_are_none_are_named(tmp_path: Path, option: str, content: str | None) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)
    options = {"zookeeper.connect": "zk", "zookeeper.ssl.client.enable": "true", option: str(file)}
    with pytest.raises(ConfigError, match=r"TLS to ZooKeeper cannot be set up with .*file\.pem") as caught:
        make_zookeeper_store(BrokerConfig(options), ManualClock())
    assert caught.value.name == option
