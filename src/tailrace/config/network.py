"""Broker options of identity, listeners, connections and requests."""

from tailrace.base.sentinel import INT32_MAX
from tailrace.config.check import at_least, host_and_port, non_empty_list, unlimited_or_at_least
from tailrace.config.declaration import (
    boolean,
    integer,
    long,
    nullable_string,
    nullable_string_list,
    string,
    string_list,
)
from tailrace.config.option import Importance, UpdateMode
from tailrace.config.unit import KIB, MIB, MINUTE_MS, SECOND_MS


class NetworkOptions:
    """The options of identity, listeners, connections and requests."""

    node_id = integer(
        "node.id",
        1,
        "Id of the broker in its cluster. Kafka has no default; Tailrace uses 1.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    broker_id = integer(
        "broker.id",
        1,
        "Older name of `node.id`; if both are set, they must be equal.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    broker_rack = nullable_string("broker.rack", "Rack or zone of this broker, which clients see in the metadata.")
    listeners = string_list(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        "Addresses to listen on, as NAME://HOST:PORT. An empty host means every interface, and port 0 any free port. "
        "Kafka's default is every interface.",
        check=non_empty_list(),
        importance=Importance.HIGH,
    )
    advertised_listeners = nullable_string_list(
        "advertised.listeners",
        "Addresses that clients connect to, if they differ from `listeners`. Port 0 means the port of the listener.",
        check=non_empty_list(),
        importance=Importance.HIGH,
    )
    listener_security_protocol_map = string(
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Security protocol of each listener name, as NAME:PROTOCOL pairs.",
        importance=Importance.LOW,
    )
    inter_broker_listener_name = nullable_string(
        "inter.broker.listener.name",
        "Listener through which brokers connect to each other; it must be one of `listeners`.",
    )
    controller_listener_names = string_list(
        "controller.listener.names",
        (),
        "Listeners of Kafka's controller protocol. Tailrace does not have this protocol and does not open them.",
        importance=Importance.HIGH,
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        100 * KIB,
        "Send buffer of each connection (SO_SNDBUF); -1 leaves it to the operating system.",
        check=unlimited_or_at_least(1),
        importance=Importance.HIGH,
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        "Receive buffer of each connection (SO_RCVBUF); -1 leaves it to the operating system, which adapts it to "
        "the client. With Kafka's default of 100 KiB, a request of 1 MB arrives in many small pieces.",
        check=unlimited_or_at_least(1),
        importance=Importance.HIGH,
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * MIB,
        "Largest request; a connection that announces a larger one is closed.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size",
        1024,
        "Number of connections that may wait to be accepted. Kafka's default is 50, because it accepts in a thread "
        "of its own. Here one event loop does everything, and a client that finds the queue full retries only after "
        "a second.",
        check=at_least(1),
    )
    max_connections = integer(
        "max.connections",
        INT32_MAX,
        "Largest number of connections. When there are so many, a new one takes the place of the idlest, of those "
        "first whose client has not logged in. With the prefix `listener.name.NAME.` it limits one listener.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        INT32_MAX,
        "Largest number of connections from one address; further ones are closed at once.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        "Time after which an idle connection is closed; a negative number means never.",
    )
    queued_max_request_bytes = long(
        "queued.max.request.bytes",
        256 * MIB,
        "Bytes of requests in memory above which the broker stops reading from connections. -1 means no limit, "
        "which is Kafka's default.",
        check=unlimited_or_at_least(1),
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "Largest number of incremental fetch sessions.",
        check=at_least(0),
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        55 * MIB,
        "Largest size of a fetch reply; a first batch that is larger is still returned.",
        check=at_least(KIB),
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        "Largest number of partitions in a reply of DescribeTopicPartitions.",
        check=at_least(1),
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable",
        True,
        "Whether a topic is created when a client first uses its name.",
        importance=Importance.HIGH,
    )
    delete_topic_enable = boolean(
        "delete.topic.enable",
        True,
        "Whether clients may delete topics.",
        importance=Importance.HIGH,
    )
    tailrace_request_read_timeout_ms = integer(
        "tailrace.request.read.timeout.ms",
        30 * SECOND_MS,
        "Time within which a request must arrive completely after its first byte; a slower connection is closed. "
        "Kafka waits for `connections.max.idle.ms`.",
        check=at_least(1),
    )
    tailrace_metrics_listener = nullable_string(
        "tailrace.metrics.listener",
        "Address of the metrics for Prometheus, as HOST:PORT; the path is /metrics. If it is not set, metrics are "
        "not served. Every client that can connect can read the names of topics and groups, so use an address that "
        "only Prometheus can reach.",
        check=host_and_port(),
    )
    tailrace_decompressed_max_bytes = integer(
        "tailrace.decompressed.max.bytes",
        64 * MIB,
        "Largest size of a compressed batch after decompression; Kafka has no such limit.",
        check=at_least(1),
    )
