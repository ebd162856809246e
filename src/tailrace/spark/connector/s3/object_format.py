"""The formats of objects, and their compressions."""

from enum import StrEnum

TEXT = "value"
"""The column of JSON objects, one for each row."""


class ObjectFormat(StrEnum):
    """The formats of objects."""

    AVRO = "avro"
    JSON = "json"
    PARQUET = "parquet"


COMPRESSIONS = {
    ObjectFormat.AVRO: ("deflate", "none"),
    ObjectFormat.JSON: ("none", "gzip"),
    ObjectFormat.PARQUET: ("snappy", "zstd", "gzip", "none"),
}
"""The compressions by format; the first one is the default."""


def suffix_of(format: ObjectFormat, compression: str) -> str:
    """Return the end of the names of objects."""
    return "json.gz" if format is ObjectFormat.JSON and compression == "gzip" else format.value
