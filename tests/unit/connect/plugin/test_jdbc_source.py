"""Confluent's JDBC source as pipelines."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.connect.plugin.loading import document, load, problems

from tailrace.connect.plugin.translation import translate

POSTGRES = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "connection.url": "jdbc:postgresql://db:5432/shop",
    "connection.user": "anna",
    "connection.password": "p@ss/word",
    "mode": "incrementing",
    "incrementing.column.name": "id",
    "table.whitelist": "orders",
    "topic.prefix": "shop-",
}
MYSQL = POSTGRES | {"connection.url": "jdbc:mysql://db:3306/shop"}
URL = "postgresql://anna:p%40ss%2Fword@db:5432/shop"


def test_a_table_is_followed_by_its_increasing_column(tmp_path: Path) -> None:
    assert document(POSTGRES, tmp_path) == {
        "name": "shop",
        "source": {"connector": "postgres", "url": URL, "table": "orders", "cursor": "id", "poll": "5 seconds"},
        "sink": {"connector": "topic", "name": "shop-orders"},
    }


@pytest.mark.parametrize(
    ("more", "source"),
    [
        ({"mode": "bulk", "incrementing.column.name": ""}, {"table": "orders"}),
        (
            {
                "mode": "timestamp",
                "incrementing.column.name": "",
                "timestamp.column.name": "at",
                "poll.interval.ms": "60000",
            },
            {"table": "orders", "cursor": "at", "poll": "60 seconds"},
        ),
        (
            {"mode": "timestamp+incrementing", "timestamp.column.name": "at"},
            {"table": "orders", "cursor": "at", "poll": "5 seconds", "key": "id"},
        ),
        (
            {"mode": "bulk", "incrementing.column.name": "", "table.whitelist": "", "query": "SELECT 1 AS n"},
            {"query": "SELECT 1 AS n"},
        ),
        ({"table.whitelist": '"sales"."orders"'}, {"table": "sales.orders", "cursor": "id", "poll": "5 seconds"}),
    ],
)
def test_modes_are_arguments_of_the_source(more: dict[str, str], source: dict[str, Any], tmp_path: Path) -> None:
    assert document(POSTGRES | more, tmp_path)["source"] == {"connector": "postgres", "url": URL, **source}


def test_each_table_has_a_flow_and_a_topic(tmp_path: Path) -> None:
    translation = translate("shop", POSTGRES | {"table.whitelist": "orders, sales.items"})
    assert [flow.name for flow in load(translation, tmp_path)] == ["shop.orders", "shop.items"]
    assert translation.topics_written == ("shop-orders", "shop-items")
    query = {"mode": "bulk", "incrementing.column.name": "", "table.whitelist": "", "query": "SELECT 1 AS n"}
    assert translate("shop", POSTGRES | query).topics_written == ("shop-",)


def test_other_databases_are_read_by_spark_with_their_driver(tmp_path: Path) -> None:
    assert document(MYSQL, tmp_path)["source"] == {
        "connector": "jdbc",
        "url": "jdbc:mysql://db:3306/shop",
        "options": {"user": "anna", "password": "p@ss/word"},
        "table": "orders",
        "cursor": "id",
        "poll": "5 seconds",
    }
    packages = translate("shop", MYSQL).spark["spark.jars.packages"]
    assert packages.startswith("com.mysql:mysql-connector-j:")
    assert translate("shop", POSTGRES).spark == {}
    assert translate("shop", MYSQL | {"connection.url": "jdbc:derby:x"}).spark == {}


def test_avro_values_are_registered(tmp_path: Path) -> None:
    avro = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://registry.example:8081",
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "value.converter.basic.auth.user.info": "anna:secret",
    }
    assert document(POSTGRES | avro, tmp_path)["sink"] == {
        "connector": "topic",
        "value": "avro",
        "registry": {"url": "http://registry.example:8081", "basic.auth.user.info": "anna:secret"},
        "name": "shop-orders",
    }


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://a:1,b:2/shop", "postgresql://anna:p%40ss%2Fword@a:1,b:2/shop"),
        ("jdbc:postgresql://db/shop?ssl=true", "postgresql://anna:p%40ss%2Fword@db/shop?sslmode=verify-full"),
        (
            "jdbc:postgresql://db/shop?sslmode=require&ApplicationName=x y",
            "postgresql://anna:p%40ss%2Fword@db/shop?sslmode=require&application_name=x+y",
        ),
        ("jdbc:postgresql:shop", "postgresql://anna:p%40ss%2Fword@localhost/shop"),
        (
            "jdbc:postgresql://db/shop?targetServerType=primary",
            "postgresql://anna:p%40ss%2Fword@db/shop?target_session_attrs=read-write",
        ),
    ],
)
def test_urls_of_the_driver_are_urls_of_the_client(url: str, expected: str, tmp_path: Path) -> None:
    assert document(POSTGRES | {"connection.url": url}, tmp_path)["source"]["url"] == expected


REFUSED: list[tuple[dict[str, str], str, str]] = [
    ({"mode": "bulk"}, "incrementing.column.name", "mode=bulk has no such column"),
    ({"mode": "bulk", "poll.interval.ms": "1000"}, "poll.interval.ms", "mode=bulk reads each table once"),
    ({"mode": "fast"}, "mode", "String must be one of: bulk, timestamp, incrementing, timestamp+incrementing"),
    ({"incrementing.column.name": ""}, "incrementing.column.name", "mode=incrementing needs the name of the column"),
    ({"mode": "timestamp", "timestamp.column.name": "a,b"}, "timestamp.column.name", "needs the name of one column"),
    ({"table.whitelist": ""}, "table.whitelist", "either table.whitelist or query is needed"),
    ({"query": "SELECT 1"}, "table.whitelist", "and not both"),
    ({"query": "SELECT 1", "table.whitelist": ""}, "query", "query needs mode=bulk"),
    ({"table.whitelist": "a.t,b.t"}, "table.whitelist", "written to the same topic"),
    ({"table.blacklist": "t"}, "table.blacklist", "name the tables in table.whitelist"),
    ({"table.include.list": "s.*"}, "table.include.list", "its items are patterns"),
    ({"poll.interval.ms": "1500"}, "poll.interval.ms", "a whole number of seconds"),
    ({"connection.url": "jdbc:postgresql://db/shop?stringtype=x"}, "connection.url", "its parameter stringtype"),
    ({"connection.url": "postgresql://db/shop"}, "connection.url", "is not a URL such as jdbc:mysql:"),
    ({"exactly.once.support": "required"}, "exactly.once.support", "use requested"),
    ({"db.timezone": "Europe/Berlin"}, "db.timezone", "only UTC can be used"),
    ({"batch.max.rows": "10"}, "batch.max.rows", "Spark divides the rows into tasks"),
    ({"value.converter": "JsonConverter"}, "value.converter.schemas.enable", "JSON with schemas is not possible"),
    ({"value.converter": "Avro"}, "value.converter.schema.registry.url", "needs the URL"),
]


@pytest.mark.parametrize(("more", "name", "words"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(more: dict[str, str], name: str, words: str) -> None:
    found = problems(POSTGRES | more)
    assert any(words in message for message in found.get(name, [])), found
    assert "p@ss/word" not in str(found)


@pytest.mark.timeout(60)
def test_a_url_that_does_not_match_is_refused_in_one_pass() -> None:
    """A URL with a line break among its parameters was divided in every possible way: this one took hours."""
    found = problems(POSTGRES | {"connection.url": "jdbc:postgresql://" + "a" * 1_000_000 + "?x\ny"})
    assert "it is not a URL such as jdbc:postgresql://host:5432/database" in str(found)
