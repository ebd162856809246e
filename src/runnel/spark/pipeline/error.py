"""What can be wrong with a pipeline, said in one line."""

from runnel.spark.error import SparkSourceError


class PipelineError(SparkSourceError):
    """A pipeline file cannot be run as it is."""


class FlowError(PipelineError):
    """One flow of a pipeline cannot start, or has failed."""

    def __init__(self, flow: str, cause: str) -> None:
        super().__init__(f"flow {flow}: {cause}")
        self.flow = flow
        self.cause = cause
