"""One Spark session and one broker for all of these tests: a session takes some seconds to start."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKOUT = Path(__file__).resolve().parents[2]


def require_spark() -> None:
    """Skip, and say why, where Spark cannot run."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from tailrace.spark.error import SessionError
    from tailrace.spark.java import find_java_home

    try:
        find_java_home()
    except SessionError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def kafka_jars() -> list[Path] | str:
    """The jars of Spark's own Kafka connector, or why there are none."""
    require_spark()
    import pyspark
    from bench.cache import Unavailable
    from bench.spark_connector import connector_jars

    try:
        return connector_jars(pyspark.__version__)
    except Unavailable as reason:
        return str(reason)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path] | str) -> Iterator[SparkSession]:
    """A session as users get it, with two cores; where it can be had, Spark's own connector is there to compare."""
    from tests.spark.quick_session import quick_session

    sources = str(CHECKOUT / "src")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([sources, *(path for path in paths if path and path != sources)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pyspark, about other libraries
        config = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
        if isinstance(kafka_jars, list):
            config["spark.jars"] = ",".join(map(str, kafka_jars))
        session = quick_session("tests", config)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker that lives as long as the session."""
    with Broker({"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def new_topic(broker: Broker) -> Callable[..., str]:
    """Makes topics whose names no other test uses."""

    def create(partitions: int = 1, **config: str | int) -> str:
        name = f"t{uuid.uuid4().hex[:8]}"
        broker.create_topic(name, partitions, {key.replace("_", "."): value for key, value in config.items()})
        return name

    return create


@pytest.fixture
def read(spark: SparkSession, broker: Broker) -> Callable[..., DataFrame]:
    """Reads topics as a batch."""
    return lambda **options: _load(spark.read, broker, options)


@pytest.fixture
def read_stream(spark: SparkSession, broker: Broker) -> Callable[..., DataFrame]:
    """Reads topics as a stream."""
    return lambda **options: _load(spark.readStream, broker, options)


def _load(reader: Any, broker: Broker, options: dict[str, Any]) -> DataFrame:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers} | options
    frame: DataFrame = reader.format("tailrace").options(**given).load()
    return frame


@pytest.fixture
def write(broker: Broker) -> Callable[..., None]:
    """Writes rows to topics."""

    def save(frame: DataFrame, **options: Any) -> None:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers} | options
        frame.write.format("tailrace").options(**given).mode("append").save()

    return save
