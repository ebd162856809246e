"""The error of a flow, with a one-line message."""

from tailrace.spark.error import PipelineError


class FlowError(PipelineError):
    """One flow of a pipeline cannot start, or has failed."""

    def __init__(self, flow: str, cause: str) -> None:
        super().__init__(f"flow {flow}: {cause}")
        self.flow = flow
        self.cause = cause
