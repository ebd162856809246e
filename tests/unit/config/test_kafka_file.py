"""Files as people have them for Kafka: a KRaft broker that is its own controller, and one of ZooKeeper's time."""

from pathlib import Path

import pytest

from tailrace.config import BrokerConfig, ConfigError, TopicConfig, load_broker_config

KRAFT = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
#log.flush.interval.ms=1000
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

ZOOKEEPER_ERA = """
broker.id=0
listeners = PLAINTEXT://0.0.0.0:9092
advertised.listeners=PLAINTEXT://broker.example.com:9092
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/var/lib/kafka/a,\\
    /var/lib/kafka/b
num.partitions=6
default.replication.factor=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.flush.interval.messages=10000
log.flush.interval.ms=1000
log.retention.hours=72
log.segment.bytes=536870912
log.retention.check.interval.ms=300000
group.initial.rebalance.delay.ms=0
inter.broker.protocol.version=3.5
log.message.format.version=3.0
log.cleaner.enable=true
auto.create.topics.enable=false
delete.topic.enable=true
unclean.leader.election.enable=false
auto.leader.rebalance.enable=true
replica.fetch.max.bytes=1048576
message.max.bytes=1000012
"""


def load(tmp_path: Path, text: str) -> BrokerConfig:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return load_broker_config(path, {}, [])


def test_a_kraft_file_starts(tmp_path: Path) -> None:
    config = load(tmp_path, KRAFT)
    assert config.node_id == 1
    assert [str(endpoint) for endpoint in config.broker_listeners] == ["PLAINTEXT://:9092"]
    assert str(config.advertised_listener("PLAINTEXT", 9092, "unused")) == "PLAINTEXT://localhost:9092"
    assert config.log_directories == (Path("/tmp/kraft-combined-logs"),)
    assert config.log_retention_check_interval_ms == 300000


def test_every_option_without_effect_is_announced(tmp_path: Path) -> None:
    announced = {notice.split()[0] for notice in load(tmp_path, KRAFT).notices}
    assert announced == {
        "process.roles",
        "controller.quorum.bootstrap.servers",
        "num.network.threads",
        "num.io.threads",
        "num.recovery.threads.per.data.dir",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
        "listener",
    }


def test_a_zookeeper_era_file_starts_without_its_zookeeper(tmp_path: Path) -> None:
    config = load(tmp_path, ZOOKEEPER_ERA)
    assert config.node_id == 0
    assert config.log_directories == (Path("/var/lib/kafka/a"), Path("/var/lib/kafka/b"))
    assert config.auto_create_topics_enable is False
    topic = TopicConfig.resolve({}, config)
    assert (topic.retention_ms, topic.flush_messages, topic.flush_ms) == (72 * 3_600_000, 10_000, 1_000)
    assert (topic.segment_bytes, topic.max_message_bytes) == (536870912, 1000012)


def test_a_zookeeper_era_file_names_the_zookeeper_of_its_cluster(tmp_path: Path) -> None:
    lines = "zookeeper.connect=zk1:2181,zk2:2182/kafka\nzookeeper.connection.timeout.ms=6000\n"
    config = load(tmp_path, f"{ZOOKEEPER_ERA}\n{lines}")
    assert config.zookeeper_connect == "zk1:2181,zk2:2182/kafka"
    assert (config.zookeeper_session_timeout_ms, config.zookeeper_connection_timeout_ms) == (18_000, 6000)


def test_a_broker_of_a_quorum_elsewhere_is_refused(tmp_path: Path) -> None:
    text = KRAFT.replace("process.roles=broker,controller", "process.roles=broker")
    with pytest.raises(ConfigError, match="the brokers of a cluster share a ZooKeeper"):
        load(tmp_path, text)
