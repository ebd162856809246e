"""The parts that tests and benchmarks download or build: jars, programs in other languages, packages.

A part is listed by the function that returns it, which finds it in the cache or builds it there. A new download is
added here, so that `make fetch` brings it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata

from tests.clients import matrix, program, serdes

from bench.cache import NotInstalled
from bench.debezium import DEBEZIUM_VERSION, debezium_classpath
from bench.debian import debian_program
from bench.jdbc import jdbc_classpath
from bench.kafka import KAFKA_VERSION, kafka_classpath
from bench.kafka_connect import connect_classpath
from bench.mirrormaker import mirror_client_classpath, mirrormaker_classpath
from bench.spark_connector import connector_jars


@dataclass(frozen=True)
class Part:
    """A part and the function that finds or makes it; the function raises `Unavailable` if it can do neither."""

    name: str
    make: Callable[[], object]


def all_parts() -> list[Part]:
    """Return the parts in the order in which they are made: from Maven Central, Go, npm, PyPI and Debian."""
    return [*_jars(), *_java_clients(), *_other_clients(), *_debian_programs()]


def _jars() -> list[Part]:
    return [
        Part(f"Apache Kafka {KAFKA_VERSION}", kafka_classpath),
        Part(f"Kafka Connect {KAFKA_VERSION}", connect_classpath),
        Part(f"Debezium {DEBEZIUM_VERSION}", debezium_classpath),
        Part(f"MirrorMaker 2 {KAFKA_VERSION}", mirrormaker_classpath),
        Part(f"MirrorMaker's client {KAFKA_VERSION}", mirror_client_classpath),
        Part("Spark's Kafka connector", _spark_connector),
        Part("PostgreSQL's JDBC driver", jdbc_classpath),
    ]


def _java_clients() -> list[Part]:
    versions = [matrix.entry(name).version for name in ("kafka-clients 3.9", "kafka-clients 4")]
    # The same program with other libraries beside it, so what is built for the one is there for the other.
    plain = [Part(f"kafka-clients {each}", program.java(each).ready) for each in versions]
    tokens = [
        Part(f"kafka-clients {each} with OAuth libraries", program.java_with_tokens(each, "Login").ready)
        for each in versions
    ]
    # Confluent's classes are on no registry: a user who has them says where, and only the program is built.
    registry = [Part("Confluent's serializers", serdes.serdes_classpath)] if serdes.VARIABLE in os.environ else []
    return [*plain, *tokens, *registry]


def _other_clients() -> list[Part]:
    packages = (program.KAFKA_CONNECT_PY, program.KAFKA_CONNECT_API)
    return [
        Part("franz-go and sarama", program.go("franz").ready),
        Part("kafkajs", program.node().ready),
        *(Part(each, partial(program.python_package, each)) for each in packages),
    ]


def _debian_programs() -> list[Part]:
    return [Part(f"Debian's {name}", partial(debian_program, name)) for name in ("kcat", "openssl")]


def _spark_connector() -> object:
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise NotInstalled("pyspark is not installed") from None
    return connector_jars(version)
