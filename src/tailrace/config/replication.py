"""Broker options of replication: how followers fetch, and when they are in sync."""

import re

from tailrace.base.sentinel import INT64_MAX
from tailrace.config.check import Check, at_least
from tailrace.config.declaration import integer, long, nullable_string
from tailrace.config.option import UpdateMode
from tailrace.config.unit import MIB, SECOND_MS

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
_SELECTOR: Check[str | None] = Check(
    "RackAwareReplicaSelector or LeaderSelector",
    lambda value: value is None or value in (RACK_AWARE_SELECTOR, _LEADER_SELECTOR),
    lambda _: f"Java classes cannot be loaded; it must be {RACK_AWARE_SELECTOR} or {_LEADER_SELECTOR}",
)


THROTTLED_REPLICAS: Check[tuple[str, ...]] = Check(
    "* or a list of PARTITION:BROKER",
    lambda value: all(item == "*" or re.fullmatch(r"\d+:\d+", item) for item in value),
)


class ReplicationOptions:
    """The options of replication."""

    leader_replication_throttled_rate = long(
        "leader.replication.throttled.rate",
        INT64_MAX,
        "Bytes per second that the leaders on this broker send to throttled followers that are not in sync.",
        check=at_least(0),
        update_mode=UpdateMode.PER_BROKER,
        is_hidden=True,
    )
    follower_replication_throttled_rate = long(
        "follower.replication.throttled.rate",
        INT64_MAX,
        "Bytes per second that this broker fetches for its throttled replicas that are not in sync.",
        check=at_least(0),
        update_mode=UpdateMode.PER_BROKER,
        is_hidden=True,
    )

    num_replica_fetchers = integer(
        "num.replica.fetchers",
        1,
        "Number of connections that fetch from each other broker.",
        check=at_least(1),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms",
        SECOND_MS,
        "Delay before a follower fetches again after an error.",
        check=at_least(0),
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes",
        MIB,
        "Bytes of one partition that a follower fetches at once; a first batch that is larger is still returned.",
        check=at_least(0),
    )
    replica_fetch_min_bytes = integer(
        "replica.fetch.min.bytes",
        1,
        "Bytes that a leader waits for before it replies to a follower.",
        check=at_least(0),
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes",
        10 * MIB,
        "Bytes that a follower fetches at once; a first batch that is larger is still returned.",
        check=at_least(0),
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        "Time that a leader waits for these bytes. It must be less than `replica.lag.time.max.ms`.",
        check=at_least(0),
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5 * SECOND_MS,
        "Interval between two writes of the high watermarks of replicated partitions.",
        check=at_least(1),
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30 * SECOND_MS,
        "Time for which a follower may be behind before the leader removes it from the ISR.",
        check=at_least(1),
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms",
        30 * SECOND_MS,
        "Time that a follower waits for the leader's reply, in addition to `replica.fetch.wait.max.ms`.",
        check=at_least(1),
    )
    replica_selector_class = nullable_string(
        "replica.selector.class",
        "Replica that consumers fetch from: by default the leader; with RackAwareReplicaSelector a replica in their "
        "own rack, if there is one (KIP-392).",
        check=_SELECTOR,
    )
