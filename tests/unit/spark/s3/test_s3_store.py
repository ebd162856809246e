"""Stores by their URL: what is refused, what a real server answers, and that no message shows a secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.s3_server import SECRET, S3Server

from tailrace.pipeline import PipelineError, flow, s3, topic
from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.s3.commit import BatchCommit
from tailrace.spark.connector.s3.listing import list_committed
from tailrace.spark.connector.s3.name import BatchName, Written
from tailrace.spark.connector.s3.store import StoreSettings, check_settings, open_store, store_scope
from tailrace.spark.error import RetriableConnectorError

obstore = pytest.importorskip("obstore", reason="obstore is not installed")

PLACE = FlowPlace("flow", Path("checkpoint"), Path())


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: s3("orders"), "s3() needs a URL such as s3://BUCKET/PREFIX; it begins with s3, gs, az"),
    (lambda: s3("s3:///orders"), "s3() needs a URL such as s3://BUCKET/PREFIX"),
    (lambda: s3("s3://key:word@bucket/a"), "s3(): the URL has credentials or a query; give credentials with options="),
    (lambda: s3("s3://key:wo/rd@bucket/a"), "s3(): the URL has credentials or a query; give credentials with options="),
    (lambda: s3("file://folder/a"), "s3(): a file URL has an absolute path, such as file:///data/orders"),
    (lambda: s3("s3://b/a", format="csv"), "s3('s3://b/a'): format='csv' is not one of avro, json, parquet"),
    (lambda: s3("s3://b/a", compression="lzo"), "compression='lzo' is not one of snappy, zstd, gzip, none"),
    (lambda: s3("s3://b/a", roll_bytes=0), "roll_bytes=0 is not a number of at least 1"),
    (lambda: s3("s3://b/a", order="size"), "order='size' is not one of modified, name"),
    (lambda: flow(source=s3("s3://b/a", format="json"), sink=topic("t"))(one), "JSON does not have the types"),
    (lambda: flow(source=s3("s3://b/a", roll_bytes=9), sink=topic("t"))(one), "is a source, and roll_bytes= is for a"),
    (lambda: flow(source=topic("t"), sink=s3("s3://b/a", order="name"))(one), "is a sink, and order= is for a source"),
    (lambda: flow(source=topic("t"), sink=s3("s3://b/a"), mode="update")(one), "takes no rows with mode='update'"),
]


def one(frame: Any) -> Any:
    return frame


@pytest.mark.parametrize(("declare", "message"), WRONG)
def test_wrong_arguments_are_refused(declare: Callable[[], Any], message: str) -> None:
    with pytest.raises(PipelineError) as error:
        declare()
    assert message in str(error.value)


def refusal(url: str, options: dict[str, str]) -> str:
    endpoint = s3(url, options=options)
    assert SECRET not in repr(endpoint)
    with pytest.raises(PipelineError) as error:
        endpoint.connect_sink(PLACE)
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_a_server_refuses_is_one_line(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = server.create_bucket()
    s3(f"s3://{bucket}/a", options=server.options).connect_source(PLACE)
    assert refusal("s3://no-such-bucket/a", server.options) == "s3://no-such-bucket/a: list: the bucket does not exist"
    server.require_credentials(is_required=True)
    try:
        text = refusal(f"s3://{bucket}/a", server.options)
    finally:
        server.require_credentials(is_required=False)
    assert text == f"s3://{bucket}/a: list: the store refuses the credentials (InvalidAccessKeyId)"
    text = refusal(f"s3://{bucket}/a", server.options | {"acces_key": "a"})
    assert text.startswith(f"s3://{bucket}/a: Configuration key: 'acces_key' is not valid")
    monkeypatch.setattr("tailrace.spark.connector.s3.store._CHECK_RETRY_S", 0.1)
    text = refusal(f"s3://{bucket}/a", server.options | {"endpoint": "http://127.0.0.1:9"})
    assert text.startswith(f"s3://{bucket}/a: list: the store does not answer: ")


def test_a_server_that_is_away_is_a_reason_to_restart_the_flow(server: S3Server) -> None:
    options = tuple((server.options | {"endpoint": "http://127.0.0.1:9"}).items())
    settings = StoreSettings("s3://bucket/a", options, retry_s=0.1)
    with pytest.raises(RetriableConnectorError), store_scope(settings, "read x"):
        obstore.get(open_store(settings), "x")


def test_credentials_come_from_the_environment_unless_options_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "another store's")
    settings = check_settings("s3()", "s3a://bucket/a/", {"AWS_ACCESS_KEY_ID": "option"}).with_environment()
    assert settings.url == "s3://bucket/a"
    assert dict(settings.config) == {"aws_access_key_id": "option", "aws_secret_access_key": SECRET}
    assert open_store(settings).config["access_key_id"] == "option"
    assert check_settings("s3()", "file:///data", None).with_environment().config == ()


def test_a_manifest_is_created_once(server: S3Server, tmp_path: Path) -> None:
    """The server, and not a look before the write, decides between two attempts to commit a batch."""
    for url, options in ((f"s3://{server.create_bucket()}/a", server.options), (f"file://{tmp_path}/new", {})):
        settings = check_settings("s3()", url, options)
        store = open_store(settings)
        commit = BatchCommit(settings, store, BatchName("flow", "0" * 12, 0))
        assert not commit.is_committed()
        objects = [[Written(commit._batch.object("a" * 8, 0, 0, number, "json"), 1, 1)] for number in range(3)]
        for (each,) in objects:
            obstore.put(store, each.name, b"1")
        assert [commit.commit(each) for each in objects] == [True, False, False]
        commit.delete_strays()
        assert [each.name for each in list_committed(settings, store)] == [objects[0][0].name]
        assert len(obstore.list(store).collect()) == 2
