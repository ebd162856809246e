"""Kafka's MirrorMaker 2 and its client, from their jars on Maven Central."""

from __future__ import annotations

from bench.kafka import KAFKA_VERSION, LOG4J_VERSION, require_java
from bench.maven import Classpath


def mirrormaker_classpath() -> Classpath:
    """Return the class path of MirrorMaker 2 with a logging backend."""
    require_java()
    log4j = [f"org.apache.logging.log4j:{name}:{LOG4J_VERSION}" for name in ("log4j-slf4j-impl", "log4j-core")]
    return Classpath.of(f"mirror-{KAFKA_VERSION}", [f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}", *log4j])


def mirror_client_classpath() -> Classpath:
    """Return the class path of the client that finds out what a mirror has copied."""
    return Classpath.of(
        f"mirror-client-{KAFKA_VERSION}",
        [
            f"org.apache.kafka:connect-mirror-client:{KAFKA_VERSION}",
            f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
        ],
    )
