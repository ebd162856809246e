"""Options without effect, which are accepted because files of Kafka often contain them.

Each has a reason, which the broker logs at start for every such option that is set. An option belongs
here only if ignoring it still does what the user asked for; the others are in `refusal`. Values are
parsed and checked, so that typing errors are found.
"""

from dataclasses import replace
from typing import Any

from tailrace.config.check import Check, at_least
from tailrace.config.declaration import boolean, integer, long, nullable_integer, nullable_string, string
from tailrace.config.option import Option
from tailrace.config.unit import MINUTE_MS, SECOND_MS


def inert(reason: str, *options: Option[Any]) -> tuple[Option[Any], ...]:
    """Return the options marked as having no effect for that reason."""
    return tuple(replace(option, inert=reason) for option in options)


_NO_PREALLOCATION: Check[bool] = Check(
    "false", lambda value: not value, lambda _: "segments grow as they are written; it must be false"
)

BROKER_OPTIONS = (
    *inert(
        "one event loop serves a broker; there are no thread pools to size",
        integer("background.threads", 10, "Threads for background work.", check=at_least(1)),
        integer("num.io.threads", 8, "Threads that handle requests.", check=at_least(1)),
        integer("num.network.threads", 3, "Threads that read and write sockets.", check=at_least(1)),
        nullable_integer("num.replica.alter.log.dirs.threads", "Threads that move replicas between folders."),
    ),
    *inert(
        "folders are recovered in parallel, and the logs of one folder one after the other",
        integer("num.recovery.threads.per.data.dir", 2, "Threads that recover logs.", check=at_least(1)),
    ),
    *inert(
        "requests in memory are bounded by queued.max.request.bytes",
        integer("queued.max.requests", 500, "Requests that may wait for a thread.", check=at_least(1)),
    ),
    *inert(
        "a quota is a token bucket and keeps no samples; quota.window.size.seconds is what a client may save up",
        integer("quota.window.num", 11, "Number of samples of client quotas.", check=at_least(1)),
    ),
    *inert(
        "a replication throttle is a token bucket and keeps no samples",
        integer("replication.quota.window.num", 11, "Number of samples of replication throttles.", check=at_least(1)),
        integer("replication.quota.window.size.seconds", 1, "Time of each sample.", check=at_least(1)),
    ),
    *inert(
        "replicas cannot move to another folder",
        integer("alter.log.dirs.replication.quota.window.num", 11, "Number of samples of moves.", check=at_least(1)),
        integer("alter.log.dirs.replication.quota.window.size.seconds", 1, "Time of each sample.", check=at_least(1)),
    ),
    *inert(
        "segments grow as they are written",
        boolean("log.preallocate", False, "Reserve the disk space of a segment.", check=_NO_PREALLOCATION),
    ),
    *inert(
        "log start offsets are written together with the recovery points",
        integer(
            "log.flush.start.offset.checkpoint.interval.ms",
            MINUTE_MS,
            "Interval between two writes of log start offsets.",
            check=at_least(0),
        ),
    ),
    *inert(
        "log tasks start after their first interval",
        long("log.initial.task.delay.ms", 30 * SECOND_MS, "Delay before the first log task.", check=at_least(0)),
    ),
    *inert(
        "record batches are always stored in message format 2",
        string("log.message.format.version", "3.0-IV1", "The stored message format."),
        boolean("log.message.downconversion.enable", True, "Convert batches for old consumers."),
    ),
    *inert(
        "Tailrace has no JMX metrics",
        boolean("auto.include.jmx.reporter", True, "Report through JMX."),
        integer("kafka.metrics.polling.interval.secs", 10, "Interval between two reports.", check=at_least(1)),
        integer("metrics.num.samples", 2, "The samples of a metric.", check=at_least(1)),
        string("metrics.recording.level", "INFO", "Which metrics are recorded."),
        long("metrics.sample.window.ms", 30 * SECOND_MS, "The length of a sample.", check=at_least(1)),
    ),
    *inert(
        "waiting requests need no purging",
        integer(
            "delete.records.purgatory.purge.interval.requests",
            1,
            "Number of completed requests after which waiting ones are purged.",
        ),
        integer(
            "fetch.purgatory.purge.interval.requests",
            1000,
            "Number of completed requests after which waiting ones are purged.",
        ),
        integer(
            "producer.purgatory.purge.interval.requests",
            1000,
            "Number of completed requests after which waiting ones are purged.",
        ),
    ),
    *inert(
        "the version between brokers is not configurable",
        nullable_string("inter.broker.protocol.version", "The version that brokers speak to each other."),
    ),
)
