"""Options of Kafka that Tailrace refuses, each with the reason.

An option belongs here, and not among those without effect, if ignoring it would not do what the file
asks for: the broker would not join a cluster, not encrypt a listener, or store data elsewhere.
"""

from collections.abc import Mapping

from tailrace.config.sasl import KERBEROS

_ZOOKEEPER = "this part of Kafka's ZooKeeper client is not supported"
_GIVEN_ID = "ids are not generated; set node.id"
_TIERED = "tiered storage is not supported yet"
_FOLDER_MOVE = "replicas cannot move to another folder yet"
_PLUGIN = "Tailrace does not load Java classes"
_LISTENERS = "Kafka itself removed it: use listeners and advertised.listeners"
_SHARE = "share groups are not supported yet"
_STREAMS = "groups of Kafka Streams are not supported"
_FIXED = "its behaviour is fixed in Tailrace"
_PEM_STORE = "PEM files have no password of their own; confluent.ssl.key.password is that of the private key"

BROKER_REFUSALS: Mapping[str, str] = {
    "advertised.host.name": _LISTENERS,
    "advertised.port": _LISTENERS,
    "alter.config.policy.class.name": _PLUGIN,
    "client.quota.callback.class": _PLUGIN,
    "config.providers": _PLUGIN,
    "confluent.ssl.keystore.password": _PEM_STORE,
    "confluent.ssl.truststore.password": _PEM_STORE,
    "control.plane.listener.name": "the controller has no listener; it reaches brokers through ZooKeeper",
    "controller.performance.always.log.threshold.ms": _FIXED,
    "controller.performance.sample.period.ms": _FIXED,
    "cordoned.log.dirs": "log folders cannot be cordoned yet",
    "create.topic.policy.class.name": _PLUGIN,
    "early.start.listeners": "all listeners open together",
    "host.name": _LISTENERS,
    "kafka.metrics.reporters": _PLUGIN,
    "log.dir.failure.timeout.ms": _FIXED,
    "log.message.timestamp.difference.max.ms": (
        "Kafka itself removed it: use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "log.local.retention.bytes": _TIERED,
    "log.local.retention.ms": _TIERED,
    "metadata.log.dir": "cluster metadata is kept in the first folder of log.dirs",
    "metric.reporters": _PLUGIN,
    "node.rack": "the option is broker.rack",
    "port": _LISTENERS,
    "principal.builder.class": _PLUGIN,
    "reserved.broker.max.id": _GIVEN_ID,
    "telemetry.max.bytes": "client metrics are not supported yet",
    "unclean.leader.election.interval.ms": _FIXED,
    "unstable.api.versions.enable": _FIXED,
    "unstable.feature.versions.enable": _FIXED,
}

BROKER_REFUSAL_PREFIXES: Mapping[str, str] = {
    "broker.id.generation.": _GIVEN_ID,
    "broker.session.uuid": "it exists for Kafka's own tests",
    "confluent.": "it is an option of Confluent Server; of these only schema validation is supported",
    "errors.deadletterqueue.": _SHARE,
    "group.share.": _SHARE,
    "group.streams.": _STREAMS,
    "internal.": "it exists for Kafka's own tests",
    "listener.name.": "it is not among the options that a listener may have for itself, those of TLS and SASL",
    "log.remote.": _TIERED,
    "org.apache.kafka.": _PLUGIN,
    "password.encoder.": "secrets in dynamic configs are protected by the access to the metadata store",
    "remote.": _TIERED,
    "replica.alter.log.dirs.": _FOLDER_MOVE,
    "rlmm.": _TIERED,
    "rsm.": _TIERED,
    "sasl.kerberos.": KERBEROS,
    "sasl.oauthbearer.": "this part of OAUTHBEARER is not supported",
    "sasl.": _PLUGIN,
    "security.providers": _PLUGIN,
    "share.coordinator.": _SHARE,
    "share.fetch.": _SHARE,
    "ssl.": _PLUGIN,
    "zookeeper.": _ZOOKEEPER,
}

TOPIC_REFUSALS: Mapping[str, str] = {
    "errors.deadletterqueue.group.enable": _SHARE,
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
    """Return why a broker option of Kafka is refused, or None if it is not refused."""
    reason = BROKER_REFUSALS.get(name)
    if reason is None:
        reason = next((text for prefix, text in BROKER_REFUSAL_PREFIXES.items() if name.startswith(prefix)), None)
    return None if reason is None else unsupported(name, reason)


def topic_refusal(name: str) -> str | None:
    """Return why a topic option of Kafka is refused, or None if it is not refused."""
    reason = TOPIC_REFUSALS.get(name)
    return None if reason is None else unsupported(name, reason)


def unsupported(name: str, reason: str) -> str:
    """Return the error for an option of Kafka that Tailrace does not support."""
    return f"{name} is a Kafka option that Tailrace does not support: {reason}"
