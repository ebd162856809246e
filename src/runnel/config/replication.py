"""Broker options of replication: how followers fetch, and when a leader counts them as in sync."""

import re

from runnel.config.check import Check, at_least
from runnel.config.declaration import integer, long, nullable_string
from runnel.config.option import INT64_MAX, UpdateMode
from runnel.config.unit import MIB, SECOND_MS

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
    """How partitions are kept on more than one broker."""

    leader_replication_throttled_rate = long(
        "leader.replication.throttled.rate",
        INT64_MAX,
        "How many bytes a second the leaders on this broker send to throttled followers that are not in sync.",
        check=at_least(0),
        update_mode=UpdateMode.PER_BROKER,
    )
    follower_replication_throttled_rate = long(
        "follower.replication.throttled.rate",
        INT64_MAX,
        "How many bytes a second this broker fetches for its throttled replicas that are not in sync.",
        check=at_least(0),
        update_mode=UpdateMode.PER_BROKER,
    )

    num_replica_fetchers = integer(
        "num.replica.fetchers",
        1,
        "How many connections fetch from each other broker.",
        check=at_least(1),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms",
        SECOND_MS,
        "How long a follower waits before it tries again after an error.",
        check=at_least(0),
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes",
        MIB,
        "How many bytes a follower fetches of one partition at once; a larger batch comes all the same.",
        check=at_least(0),
    )
    replica_fetch_min_bytes = integer(
        "replica.fetch.min.bytes",
        1,
        "How many bytes a leader waits for before it answers a follower.",
        check=at_least(0),
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes",
        10 * MIB,
        "How many bytes a follower fetches at once; a larger batch comes all the same.",
        check=at_least(0),
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        "How long a leader waits for these bytes. It must be less than replica.lag.time.max.ms.",
        check=at_least(0),
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5 * SECOND_MS,
        "How often it is written down how far replicated partitions are committed.",
        check=at_least(1),
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30 * SECOND_MS,
        "How long a follower may be behind before it is no longer in sync.",
        check=at_least(1),
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms",
        30 * SECOND_MS,
        "How long a follower waits for its leader's answer, beyond what it asked the leader to wait.",
        check=at_least(1),
    )
    replica_selector_class = nullable_string(
        "replica.selector.class",
        "Which replica consumers are sent to: without it the leader, with RackAwareReplicaSelector one in their own "
        "rack where there is one (KIP-392).",
        check=_SELECTOR,
    )
