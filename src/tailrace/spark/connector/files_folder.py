"""Folders of files in Spark: their schema, their newest files, and the columns that a format can hold."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.argument import Malformed
from tailrace.spark.connector.files import CORRUPT_ROW, GLOB, NOT_A_ROW, WITHOUT_SCHEMA, FileFormat, Files
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.wrong_row import reject_wrong
from tailrace.spark.error import PipelineError
from tailrace.spark.message import clean, shorten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NEWEST_FILES = 10


def check_format(spark: "SparkSession", files: Files) -> None:
    """Raise `PipelineError` if this Spark has no reader and writer of the format."""
    if files.format is not FileFormat.AVRO:
        return
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(files.spark_format)
    except Py4JJavaError:
        raise PipelineError(
            f"{files}: this Spark has no Avro; use Spark 4.3 or later, or set "
            f"spark.jars.packages=org.apache.spark:spark-avro_2.13:{spark.version} in spark-defaults.conf"
        ) from None


def infer_schema(spark: "SparkSession", files: Files, path: str) -> "StructType":
    """Return the schema of the files that are there; raises `PipelineError` if there are none."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StringType, StructField, StructType

    if files.format is FileFormat.TEXT:
        return StructType([StructField("value", StringType())])
    try:
        frame = spark.read.format(files.spark_format).options(**files.source_options()).load(path)
    except AnalysisException as error:
        if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            reason = "there are no files to take the schema from"
        else:
            reason = f"the schema of the files cannot be read: {shorten(clean(str(error)))}"
        raise PipelineError(f"{files}: {reason}; give schema=") from None
    return StructType(frame.schema.fields)


def read_checked(
    files: Files, schema: "StructType", rejects: Rejects, load: "Callable[[StructType], DataFrame]"
) -> "DataFrame":
    """Return what `load` reads with a schema, without the rows of CSV and JSON that do not fit it."""
    from pyspark.sql.functions import coalesce, col, concat, lit, substring
    from pyspark.sql.types import StringType, StructField, StructType

    if files.format not in WITHOUT_SCHEMA or files.malformed is Malformed.NULL:
        return load(schema)
    rows = load(StructType([*schema.fields, StructField(CORRUPT_ROW, StringType())]))
    # Spark refuses to read the column of corrupt rows alone, which a flow that only counts rows would do.
    another = coalesce(substring(col(f"`{schema.fieldNames()[0]}`").cast("string"), 1, 0), lit(""))
    is_wrong = concat(col(CORRUPT_ROW), another).isNotNull()
    checked = reject_wrong(rows, is_wrong, col("_metadata.file_path"), col(CORRUPT_ROW), NOT_A_ROW, rejects)
    return checked.drop(CORRUPT_ROW)


def read_newest(spark: "SparkSession", files: Files, path: str, schema: "StructType") -> "DataFrame":
    """Read the newest files of a folder as a batch."""
    reader = spark.read.format(files.spark_format).options(**files.source_options()).schema(schema)
    folder = reader.load(path)
    found = _newest(spark, folder.inputFiles())
    if not found:
        return spark.createDataFrame([], folder.schema)
    if not set(GLOB) & set(path):  # the values of a partitioned folder are in the paths below it
        reader = reader.option("basePath", path)
    return reader.load(found)


def _newest(spark: "SparkSession", paths: list[str]) -> list[str]:
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()

    def modified_ms(path: str) -> int:
        place = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path))
        return int(place.getFileSystem(conf).getFileStatus(place).getModificationTime())

    return sorted(paths, key=modified_ms, reverse=True)[:NEWEST_FILES]


def check_columns_of_format(rows: "DataFrame", files: Files) -> None:
    """Raise `PipelineError` if files of the format cannot hold the columns."""
    kept = [(name, kind) for name, kind in rows.dtypes if name not in files.partition_by]
    if files.format is FileFormat.TEXT and [kind for _, kind in kept] != ["string"]:
        found = ", ".join(f"{name} {kind}" for name, kind in kept) or "none"
        raise PipelineError(f"{files}: text has one column, which is a string, and the result has {found}")
    if files.format is FileFormat.CSV:
        for name, kind in kept:
            if kind.startswith(("struct<", "array<", "map<")) or kind == "binary":
                raise PipelineError(f"{files}: column {name} is {kind}, which CSV does not have; cast it to string")
