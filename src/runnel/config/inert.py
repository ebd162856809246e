"""Options that are accepted because Kafka files commonly hold them, and that change nothing in Runnel.

Each gives its reason, which the broker logs once at start for every such option that is set. An
option belongs here only if leaving it without effect keeps what the user asked for; the others
are in `refusal`. Values are still parsed and checked, so that a typing error is found.
"""

from dataclasses import replace
from typing import Any

from runnel.config.check import Check, at_least
from runnel.config.declaration import boolean, integer, long, nullable_integer, nullable_string, string
from runnel.config.option import Option
from runnel.config.unit import MINUTE_MS, SECOND_MS


def inert(reason: str, *options: Option[Any]) -> tuple[Option[Any], ...]:
    """Return the options as ones that have no effect, for that reason."""
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
        "folders are recovered at the same time, and the logs of one folder one after the other",
        integer("num.recovery.threads.per.data.dir", 2, "Threads that recover logs.", check=at_least(1)),
    ),
    *inert(
        "requests in memory are bounded by queued.max.request.bytes",
        integer("queued.max.requests", 500, "Requests that may wait for a thread.", check=at_least(1)),
    ),
    *inert(
        "segments grow as they are written",
        boolean("log.preallocate", False, "Reserve the disk space of a segment.", check=_NO_PREALLOCATION),
    ),
    *inert(
        "the log keeps its own recovery points",
        integer(
            "log.flush.start.offset.checkpoint.interval.ms",
            MINUTE_MS,
            "How often log starts are kept.",
            check=at_least(0),
        ),
    ),
    *inert(
        "log tasks begin with their first interval",
        long("log.initial.task.delay.ms", 30 * SECOND_MS, "The wait before the first log task.", check=at_least(0)),
    ),
    *inert(
        "record batches are always stored in message format 2",
        string("log.message.format.version", "3.0-IV1", "The stored message format."),
        boolean("log.message.downconversion.enable", True, "Convert batches for old consumers."),
    ),
    *inert(
        "the broker keeps the compression of the producer",
        integer("compression.gzip.level", -1, "The level of gzip."),
        integer("compression.lz4.level", 9, "The level of lz4."),
        integer("compression.zstd.level", 3, "The level of zstd."),
    ),
    *inert(
        "Kafka's JMX metrics do not exist here",
        boolean("auto.include.jmx.reporter", True, "Report through JMX."),
        integer("kafka.metrics.polling.interval.secs", 10, "How often reporters are fed.", check=at_least(1)),
        integer("metrics.num.samples", 2, "The samples of a metric.", check=at_least(1)),
        string("metrics.recording.level", "INFO", "Which metrics are recorded."),
        long("metrics.sample.window.ms", 30 * SECOND_MS, "The length of a sample.", check=at_least(1)),
    ),
    *inert(
        "waiting requests leave nothing behind to collect",
        integer("delete.records.purgatory.purge.interval.requests", 1, "After how many requests to collect."),
        integer("fetch.purgatory.purge.interval.requests", 1000, "After how many requests to collect."),
        integer("producer.purgatory.purge.interval.requests", 1000, "After how many requests to collect."),
    ),
    *inert(
        "brokers of different versions do not meet in a cluster of one",
        nullable_string("inter.broker.protocol.version", "The version that brokers speak to each other."),
    ),
)
