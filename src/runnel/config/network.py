"""Broker options of identity, listeners, connections and requests."""

from runnel.config.check import at_least, host_and_port, non_empty_list, unlimited_or_at_least
from runnel.config.declaration import (
    boolean,
    integer,
    long,
    nullable_string,
    nullable_string_list,
    string,
    string_list,
)
from runnel.config.option import INT32_MAX, Importance, UpdateMode
from runnel.config.unit import KIB, MIB, MINUTE_MS, SECOND_MS


class NetworkOptions:
    """Who the broker is, where it listens and how much it takes in."""

    node_id = integer(
        "node.id",
        1,
        "The broker's number in its cluster. Kafka has no default; Runnel takes 1.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    broker_id = integer(
        "broker.id",
        1,
        "The older name of node.id; if both are set they must agree.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    broker_rack = nullable_string("broker.rack", "The rack or zone of this broker, which clients see in metadata.")
    listeners = string_list(
        "listeners",
        ("PLAINTEXT://:9092",),
        "The addresses to open, as NAME://HOST:PORT. An empty host means every interface, port 0 any free port.",
        check=non_empty_list(),
        importance=Importance.HIGH,
    )
    advertised_listeners = nullable_string_list(
        "advertised.listeners",
        "The addresses that clients are told to use, where they differ from listeners. "
        "Port 0 stands for the port that was opened.",
        check=non_empty_list(),
        importance=Importance.HIGH,
    )
    listener_security_protocol_map = string(
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Which security protocol each listener name stands for, as NAME:PROTOCOL pairs. "
        "A listener that is opened must map to PLAINTEXT for now.",
        importance=Importance.LOW,
    )
    inter_broker_listener_name = nullable_string(
        "inter.broker.listener.name",
        "The listener through which brokers reach each other; it must be one of listeners.",
    )
    controller_listener_names = string_list(
        "controller.listener.names",
        (),
        "Listeners of Kafka's own controller protocol. Runnel has no such protocol and does not open them.",
        importance=Importance.HIGH,
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        100 * KIB,
        "The send buffer of each connection (SO_SNDBUF); -1 leaves it to the operating system.",
        check=unlimited_or_at_least(1),
        importance=Importance.HIGH,
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        "The receive buffer of each connection (SO_RCVBUF); -1 leaves it to the operating system, which fits it to "
        "what the peer sends. Kafka's default is 100 KiB, with which a request of 1 MB arrives in many small pieces.",
        check=unlimited_or_at_least(1),
        importance=Importance.HIGH,
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * MIB,
        "The largest request; a connection that announces a larger one is closed.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size",
        1024,
        "How many connections may wait to be accepted. Kafka's default is 50, which a thread of its own empties; "
        "here one event loop does everything, and a client that finds the queue full tries again a second later.",
        check=at_least(1),
    )
    max_connections = integer(
        "max.connections",
        INT32_MAX,
        "The most connections at any time.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        INT32_MAX,
        "The most connections from one address; one more is closed at once.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        "How long a connection may be idle before it is closed; a negative number means for ever.",
    )
    queued_max_request_bytes = long(
        "queued.max.request.bytes",
        256 * MIB,
        "The most bytes of requests in memory at once; while it is reached no connection is read. "
        "-1 means without limit, which is Kafka's default.",
        check=unlimited_or_at_least(1),
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "How many incremental fetch sessions are kept.",
        check=at_least(0),
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        55 * MIB,
        "The most bytes in one fetch reply; a first batch that is larger is still returned.",
        check=at_least(KIB),
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        "The most partitions in one reply of DescribeTopicPartitions.",
        check=at_least(1),
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable",
        True,
        "Whether a topic is created when a client first asks for it.",
        importance=Importance.HIGH,
    )
    delete_topic_enable = boolean(
        "delete.topic.enable",
        True,
        "Whether clients may delete topics.",
        importance=Importance.HIGH,
    )
    runnel_request_read_timeout_ms = integer(
        "runnel.request.read.timeout.ms",
        30 * SECOND_MS,
        "How long a request may take to arrive in full once its first byte has; "
        "a slower connection is closed. Kafka waits for connections.max.idle.ms.",
        check=at_least(1),
    )
    runnel_metrics_listener = nullable_string(
        "runnel.metrics.listener",
        "Where to serve metrics to Prometheus, as HOST:PORT; they are under /metrics there. Not served if it is "
        "not set. Whoever can connect can read the names of topics and groups, so choose an address that is yours.",
        check=host_and_port(),
    )
    runnel_decompressed_max_bytes = integer(
        "runnel.decompressed.max.bytes",
        64 * MIB,
        "The most bytes that a compressed batch may hold once decompressed; Kafka has no such limit.",
        check=at_least(1),
    )
