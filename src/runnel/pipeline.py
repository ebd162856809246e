"""What a pipeline file needs: the decorator for flows, and where they read and write.

    from runnel.pipeline import flow, parquet, topic

    @flow(source=topic("orders", schema="user string, cents bigint"), sink=parquet("orders"))
    def orders(orders):
        return orders.where("cents > 0")

`runnel pipeline run FILE` runs it. Importing this loads no Spark.
"""

from runnel.spark.pipeline.endpoint import Parquet, Topic, parquet, topic
from runnel.spark.pipeline.error import PipelineError
from runnel.spark.pipeline.flow import Flow, flow

__all__ = ["Flow", "Parquet", "PipelineError", "Topic", "flow", "parquet", "topic"]
