"""Options that Kafka has and Runnel refuses by name, each with the reason.

An option belongs here, and not among the inert ones, when starting without it would give the user
something else than the file asks for: a cluster that is not joined, a listener that is not
encrypted, data in another place.
"""

from collections.abc import Mapping

_ZOOKEEPER = "this part of Kafka's ZooKeeper client is not supported"
_GIVEN_ID = "brokers have the ids that they are given with node.id"
_SECURITY = "TLS, SASL and access control are not supported yet, and starting without them would leave the broker open"
_TIERED = "tiered storage is not supported yet"
_QUOTA = "quotas are not supported yet"
_PLUGIN = "Runnel does not load Java classes"
_LISTENERS = "Kafka itself removed it: use listeners and advertised.listeners"
_SHARE = "share groups are not supported yet"
_STREAMS = "groups of Kafka Streams are not supported"
_FIXED = "its behaviour is fixed in Runnel"

BROKER_REFUSALS: Mapping[str, str] = {
    "advertised.host.name": _LISTENERS,
    "advertised.port": _LISTENERS,
    "allow.everyone.if.no.acl.found": _SECURITY,
    "alter.config.policy.class.name": _PLUGIN,
    "authorizer.class.name": _SECURITY,
    "client.quota.callback.class": _PLUGIN,
    "config.providers": _PLUGIN,
    "connection.failed.authentication.delay.ms": _SECURITY,
    "connections.max.reauth.ms": _SECURITY,
    "control.plane.listener.name": "controllers reach brokers by no listener, but through ZooKeeper",
    "controller.performance.always.log.threshold.ms": _FIXED,
    "controller.performance.sample.period.ms": _FIXED,
    "cordoned.log.dirs": "log folders cannot be cordoned off yet",
    "create.topic.policy.class.name": _PLUGIN,
    "early.start.listeners": _SECURITY,
    "host.name": _LISTENERS,
    "kafka.metrics.reporters": _PLUGIN,
    "log.dir.failure.timeout.ms": _FIXED,
    "log.message.timestamp.difference.max.ms": (
        "Kafka itself removed it: use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "log.local.retention.bytes": _TIERED,
    "log.local.retention.ms": _TIERED,
    "max.connection.creation.rate": "a limit on new connections per second is not supported yet",
    "max.connections.per.ip.overrides": "only one limit for all addresses, max.connections.per.ip, is supported",
    "metadata.log.dir": "cluster metadata is kept in the first folder of log.dirs",
    "metric.reporters": _PLUGIN,
    "node.rack": "the option is broker.rack",
    "port": _LISTENERS,
    "principal.builder.class": _SECURITY,
    "producer.id.expiration.check.interval.ms": _FIXED,
    "reserved.broker.max.id": _GIVEN_ID,
    "super.users": _SECURITY,
    "telemetry.max.bytes": "client metrics are not supported yet",
    "unclean.leader.election.interval.ms": _FIXED,
    "unstable.api.versions.enable": _FIXED,
    "unstable.feature.versions.enable": _FIXED,
}

BROKER_REFUSAL_PREFIXES: Mapping[str, str] = {
    "broker.id.generation.": _GIVEN_ID,
    "broker.session.uuid": "it exists for Kafka's own tests",
    "confluent.": "it is an option of Confluent Server, not of Apache Kafka",
    "delegation.token.": _SECURITY,
    "errors.deadletterqueue.": _SHARE,
    "group.share.": _SHARE,
    "group.streams.": _STREAMS,
    "internal.": "it exists for Kafka's own tests",
    "listener.name.": _SECURITY,
    "log.remote.": _TIERED,
    "org.apache.kafka.": _PLUGIN,
    "password.encoder.": _SECURITY,
    "quota.": _QUOTA,
    "remote.": _TIERED,
    "replica.alter.log.dirs.": _QUOTA,
    "replication.quota.": _QUOTA,
    "alter.log.dirs.": _QUOTA,
    "controller.quota.": _QUOTA,
    "rlmm.": _TIERED,
    "rsm.": _TIERED,
    "sasl.": _SECURITY,
    "security.providers": _PLUGIN,
    "share.coordinator.": _SHARE,
    "share.fetch.": _SHARE,
    "ssl.": _SECURITY,
    "zookeeper.": _ZOOKEEPER,
}

_RECOMPRESSION = "the broker keeps the compression of the producer"

TOPIC_REFUSALS: Mapping[str, str] = {
    "compression.gzip.level": _RECOMPRESSION,
    "compression.lz4.level": _RECOMPRESSION,
    "compression.zstd.level": _RECOMPRESSION,
    "errors.deadletterqueue.group.enable": _SHARE,
    "internal.segment.bytes": "it exists for Kafka's own tests",
    "local.retention.bytes": _TIERED,
    "local.retention.ms": _TIERED,
    "message.downconversion.enable": "Kafka itself removed it",
    "message.format.version": "Kafka itself removed it",
    "message.timestamp.difference.max.ms": (
        "Kafka itself removed it: use message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    ),
    "preallocate": "segments grow as they are written",
    "remote.copy.lag.bytes": _TIERED,
    "remote.copy.lag.ms": _TIERED,
    "remote.log.copy.disable": _TIERED,
    "remote.log.delete.on.disable": _TIERED,
    "remote.storage.enable": _TIERED,
}


def broker_refusal(name: str) -> str | None:
    """Return why a broker option of Kafka is refused, or None when the name is not one of those."""
    reason = BROKER_REFUSALS.get(name)
    if reason is None:
        reason = next((text for prefix, text in BROKER_REFUSAL_PREFIXES.items() if name.startswith(prefix)), None)
    return None if reason is None else unsupported(name, reason)


def topic_refusal(name: str) -> str | None:
    """Return why a topic option of Kafka is refused, or None when the name is not one of those."""
    reason = TOPIC_REFUSALS.get(name)
    return None if reason is None else unsupported(name, reason)


def unsupported(name: str, reason: str) -> str:
    """Return the sentence for an option that Kafka has and Runnel does not."""
    return f"{name} is a Kafka option that Runnel does not support: {reason}"
