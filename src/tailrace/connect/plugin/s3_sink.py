"""Confluent's S3 sink connector: the values of topics as objects of a bucket."""

from typing import Any

from tailrace.connect.plugin.base import Group, Importance, Kind, Plugin, Translation, Type
from tailrace.connect.plugin.check import at_least, not_empty, one_of_any_case
from tailrace.connect.plugin.converter import Converter, Format, find_converter
from tailrace.connect.plugin.document import finish, flow_name, read_errors, read_topics
from tailrace.connect.plugin.rows import SCHEMA_DEFINITION, read_rows
from tailrace.connect.plugin.setting import Settings

BUCKET = "s3.bucket.name"
REGION = "s3.region"
STORE_URL = "store.url"
ACCESS_KEY = "aws.access.key.id"
SECRET_KEY = "aws.secret.access.key"  # noqa: S105 - the name of a setting
FORMAT = "format.class"
FLUSH_SIZE = "flush.size"
ROTATE_MS = "rotate.interval.ms"
SCHEDULE_MS = "rotate.schedule.interval.ms"
TOPICS_DIR = "topics.dir"
COMPRESSION = "s3.compression.type"
PARQUET_CODEC = "parquet.codec"
AVRO_CODEC = "avro.codec"
ON_NULL = "behavior.on.null.values"
PATH_STYLE = "s3.path.style.access.enabled"

_JSON_CLASS = "io.confluent.connect.s3.format.json.JsonFormat"
_AVRO_CLASS = "io.confluent.connect.s3.format.avro.AvroFormat"
_PARQUET_CLASS = "io.confluent.connect.s3.format.parquet.ParquetFormat"
_FORMATS = {_JSON_CLASS: "json", _AVRO_CLASS: "avro", _PARQUET_CLASS: "parquet"}
_CODECS = {"json": COMPRESSION, "avro": AVRO_CODEC, "parquet": PARQUET_CODEC}
_COMPRESSIONS = {"null": "none", "uncompressed": "none"}
_DELAY_MAX = "36500d"
"""How long a batch waits for enough records if no interval is given: it never ends by time."""

_H, _M = Importance.HIGH, Importance.MEDIUM


def _translate(settings: Settings) -> Translation:
    topics = read_topics(settings)
    rows = read_rows(settings)
    find_converter(settings, "key", Converter(Format.TEXT), tuple(Format))  # keys are not written
    rows.arguments["tombstones"] = "drop" if settings.text(ON_NULL).lower() == "ignore" else "reject"
    rows.arguments["options"] = {**rows.arguments.get("options", {}), **_read_rotation(settings)}
    sink = _read_sink(settings)
    rest = {**rows.sql(), **read_errors(settings)}
    folder = "/".join(part for part in (settings.text(BUCKET), settings.text(TOPICS_DIR).strip("/")) if part)
    documents = [
        {
            "name": flow_name(settings.name, topic if len(topics) > 1 else ""),
            "source": rows.source(topic),
            "sink": {**sink, "url": f"s3://{folder}/{topic}"},
            **rest,
        }
        for topic in topics
    ]
    return finish(settings, Kind.SINK, documents, topics)


def _read_rotation(settings: Settings) -> dict[str, str]:
    """Return the options of the source that divide the records into objects."""
    size = str(settings.number(FLUSH_SIZE))
    intervals = [settings.number(name) for name in (ROTATE_MS, SCHEDULE_MS)]
    given = [interval_ms for interval_ms in intervals if interval_ms > 0]
    delay = f"{min(given)}ms" if given else _DELAY_MAX
    return {"maxRecordsPerPartition": size, "minOffsetsPerTrigger": size, "maxTriggerDelay": delay}


def _read_sink(settings: Settings) -> dict[str, Any]:
    """Return the sink without its URL."""
    class_name = settings.text(FORMAT)
    named = {known.rpartition(".")[2]: name for known, name in _FORMATS.items()} | _FORMATS
    if class_name and class_name not in named:
        settings.refuse(FORMAT, f"there is no such format; there are {', '.join(_FORMATS)}")
    chosen = named.get(class_name, "avro")
    for name, setting in _CODECS.items():
        if name != chosen and settings.is_given(setting) and settings.text(setting) not in ("none", "null"):
            settings.refuse(setting, f"objects of the format {chosen} do not use it; remove it")
    codec = settings.text(_CODECS[chosen]).lower()
    names = {
        "region": settings.text(REGION) if settings.is_given(REGION) else "",
        "endpoint": settings.text(STORE_URL),
        "access_key_id": settings.text(ACCESS_KEY),
        "secret_access_key": settings.text(SECRET_KEY),
    }
    options = {name: text for name, text in names.items() if text}
    if settings.is_given(PATH_STYLE):
        options["virtual_hosted_style_request"] = str(not settings.flag(PATH_STYLE)).lower()
    return {
        "connector": "s3",
        "format": chosen,
        "compression": _COMPRESSIONS.get(codec, codec),
        **({"options": options} if options else {}),
    }


_S3, _STORAGE, _CONNECTOR, _PARTITIONS = Group("S3"), Group("Storage"), Group("Connector"), Group("Partitioner")

SINK = Plugin(
    "io.confluent.connect.s3.S3SinkConnector",
    Kind.SINK,
    (
        _CONNECTOR.define(
            FORMAT,
            Type.CLASS,
            None,
            _H,
            "The format of objects: JSON lines, Avro or Parquet.",
            required=True,
            recommended=tuple(_FORMATS),
        ),
        _CONNECTOR.define(
            FLUSH_SIZE,
            Type.INT,
            None,
            _H,
            "The most records in an object. Objects are written when so many records are there.",
            required=True,
            check=at_least(1),
        ),
        _CONNECTOR.define(
            ROTATE_MS,
            Type.LONG,
            "-1",
            _H,
            "Objects are written after this time even if they have fewer records.",
        ),
        _CONNECTOR.define(SCHEDULE_MS, Type.LONG, "-1", _M, "The same; the shorter of the two counts."),
        _CONNECTOR.refuse("retry.backoff.ms", "5000", "remove it: flows restart by themselves", Type.LONG),
        _CONNECTOR.refuse("shutdown.timeout.ms", "3000", kind=Type.LONG),
        _CONNECTOR.refuse("filename.offset.zero.pad.width", "10", "objects have other names", Type.INT),
        _CONNECTOR.refuse("schema.cache.size", "1000", kind=Type.INT),
        _CONNECTOR.define(
            AVRO_CODEC,
            Type.STRING,
            "null",
            documentation="The compression of Avro: null or deflate.",
            accepted=("null", "deflate"),
        ),
        _CONNECTOR.define(
            PARQUET_CODEC,
            Type.STRING,
            "snappy",
            documentation="The compression of Parquet: none, gzip, snappy or zstd.",
            accepted=("none", "gzip", "snappy", "zstd"),
        ),
        _CONNECTOR.define(
            "schema.compatibility",
            Type.STRING,
            "NONE",
            _H,
            "What happens if the schema changes. A flow reads all values with one schema.",
            accepted=("NONE", "BACKWARD", "FULL"),
            instead="values are converted to the newest schema at the first start",
        ),
        _S3.define(BUCKET, Type.STRING, None, _H, "The bucket.", required=True, check=not_empty),
        _S3.define(REGION, Type.STRING, "us-west-2", _M, "The region. If it is not given, AWS_REGION is used."),
        _S3.define(ACCESS_KEY, Type.STRING, "", _H, "The access key. If it is not given, the environment has it."),
        _S3.define(SECRET_KEY, Type.PASSWORD, None, _H, "The secret key."),
        _S3.refuse("s3.credentials.provider.class", None, f"set {ACCESS_KEY}, or AWS_ACCESS_KEY_ID of the service"),
        _S3.refuse("s3.part.size", "26214400", "remove it", Type.INT),
        _S3.define(
            COMPRESSION,
            Type.STRING,
            "none",
            documentation="The compression of JSON: none or gzip.",
            check=one_of_any_case("none", "gzip"),
        ),
        _S3.refuse("s3.compression.level", "-1", kind=Type.INT),
        _S3.refuse("s3.ssea.name", ""),
        _S3.refuse("s3.acl.canned", None),
        _S3.refuse("s3.object.tagging", "false", kind=Type.BOOLEAN),
        _S3.refuse("s3.wan.mode", "false", kind=Type.BOOLEAN),
        _S3.refuse("s3.part.retries", "3", "remove it: requests are repeated for a minute", Type.INT),
        _S3.refuse("s3.retry.backoff.ms", "200", "remove it: requests are repeated for a minute", Type.LONG),
        _S3.refuse("s3.proxy.url", "", "set HTTPS_PROXY of the service"),
        _S3.define(PATH_STYLE, Type.BOOLEAN, "true", documentation="Whether URLs have the bucket in their path."),
        _S3.define(
            ON_NULL,
            Type.STRING,
            "fail",
            documentation="What happens with a record without a value: fail, or ignore.",
            check=one_of_any_case("fail", "ignore", "write"),
            accepted=("fail", "ignore"),
            instead="an object has only records with a value",
        ),
        _S3.refuse("store.kafka.keys", "false", "use tailrace.Sink with source.include=key", Type.BOOLEAN),
        _S3.refuse("store.kafka.headers", "false", "use tailrace.Sink with source.include=headers", Type.BOOLEAN),
        _STORAGE.define(
            "storage.class",
            Type.CLASS,
            "io.confluent.connect.s3.storage.S3Storage",
            _H,
            "The kind of store.",
            accepted=("io.confluent.connect.s3.storage.S3Storage",),
        ),
        _STORAGE.define(STORE_URL, Type.STRING, None, _H, "The URL of a store with S3's API, such as MinIO."),
        _STORAGE.define(TOPICS_DIR, Type.STRING, "topics", _H, "The prefix before the names of the topics."),
        _STORAGE.refuse("directory.delim", "/"),
        _STORAGE.refuse("file.delim", "+", "objects have other names"),
        _PARTITIONS.define(
            "partitioner.class",
            Type.CLASS,
            "io.confluent.connect.storage.partitioner.DefaultPartitioner",
            _H,
            "How objects are divided into folders. They are directly below the name of the topic.",
            accepted=("io.confluent.connect.storage.partitioner.DefaultPartitioner", "DefaultPartitioner"),
            instead="objects are directly below the name of the topic; for folders, use tailrace.Sink with files",
        ),
        *(
            _PARTITIONS.refuse(name, None, "there are no folders below the name of the topic")
            for name in (
                "partition.field.name",
                "partition.duration.ms",
                "path.format",
                "locale",
                "timezone",
                "timestamp.extractor",
                "timestamp.field",
            )
        ),
        SCHEMA_DEFINITION,
    ),
    _translate,
)
