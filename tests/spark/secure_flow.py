"""A program that copies a topic over TLS with a login, and prints all that Spark shows about it; for `test_secrets`."""

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.spark.quick_session import quick_session
from tests.spark.waiting import run_to_end


def pages(spark: SparkSession) -> list[str]:
    """The web pages about the environment and the queries, as a browser and as a program get them."""
    url = spark.sparkContext.uiWebUrl
    rest = f"api/v1/applications/{spark.sparkContext.applicationId}"
    paths = [f"{rest}/{name}" for name in ("environment", "sql?details=true&length=100", "stages?details=true", "jobs")]
    paths += ["environment/", "SQL/", "StreamingQuery/", "stages/", "jobs/"]
    paths += [f"SQL/execution/?id={number}" for number in range(4)]
    texts = []
    for path in paths:
        with urllib.request.urlopen(f"{url}/{path}") as answer:  # noqa: S310 - Spark's own pages
            texts.append(answer.read().decode())
    return texts


def plans(frame: DataFrame) -> list[str]:
    execution = frame._jdf.queryExecution()
    return [execution.toString(), execution.logical().treeString(), execution.optimizedPlan().toJSON()]


def main(folder: Path) -> None:
    given: dict[str, Any] = json.loads((folder / "options.json").read_text())
    options = {f"kafka.{name}": text for name, text in given.items()}
    spark = quick_session(
        "secrets",
        {
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(folder / "events"),
        },
    )
    spark.sparkContext.setLogLevel("INFO")
    spark.createDataFrame([(b"k", b"v")], "key binary, value binary").write.format("tailrace").options(
        topic="from", **options
    ).mode("append").save()
    batch = spark.read.format("tailrace").options(subscribe="from", **options).load()
    assert batch.count() == 1
    stream = spark.readStream.format("tailrace").options(subscribe="from", startingOffsets="earliest", **options).load()
    writer = stream.select("key", "value").writeStream.format("tailrace").options(topic="to", **options)
    query = run_to_end(writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start)
    explained = query._jsq.explainInternal(True)
    progress = [str(one.json if hasattr(one, "json") else one) for one in query.recentProgress]
    copied = spark.read.format("tailrace").options(subscribe="to", **options).load()
    print("copied", copied.count())
    for text in [*plans(batch), *plans(copied), explained, *progress, *pages(spark)]:
        print(text)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
