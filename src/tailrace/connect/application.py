"""The Spark application of one connector, in a process of its own.

The service writes a job to the standard input and leaves it open. When it is closed, because the service stops the
connector or has died, the application stops. Its standard output is for reports alone.

    python -m tailrace.connect.application
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from tailrace.client.admin.core import NewTopic
from tailrace.client.admin.sync import Admin
from tailrace.client.error import ClientError
from tailrace.connect.job import Event, Job, Report
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.client_log import log_scope
from tailrace.spark.error import PipelineError, SparkSourceError
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import plan_flow
from tailrace.spark.pipeline.restart import can_pass
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.spark.pipeline.run_lock import find_runner, run_lock
from tailrace.spark.pipeline.spark_scope import spark_scope
from tailrace.spark.pipeline.topic_check import check_topics, create_sinks

_LOOK_INTERVAL_S = 0.25
_TOPIC_INTERVAL_S = 1.0
_LOG_LEVEL = "off"
_NO_JAVA = "[JAVA_GATEWAY_EXITED]"

Tell = Callable[[Report], None]


def run(job: Job, tell: Tell, stopping: threading.Event) -> None:
    """Run a job until it is told to stop; raises the error of a flow that cannot go on."""
    file, checkpoints = Path(job.file), Path(job.checkpoints)
    with log_scope(_LOG_LEVEL):
        pipeline = load_pipeline(file)
        _create_topics(job)
        _await_topics(job, tell, stopping)
        if stopping.is_set():
            return
        plans = [plan_flow(flow, job.client, checkpoints, file.parent) for flow in pipeline.flows]
        check_topics(plans, job.client)
        with spark_scope(file, master=job.master, config=job.spark) as spark:
            running = PipelineRun(spark, pipeline, plans, group=job.group or None, stopping=stopping)
            running.build()
            _await_lock(checkpoints, tell, stopping)
            if stopping.is_set():
                return
            with run_lock(checkpoints):
                create_sinks(plans, job.client)
                _watch(running, tell, stopping)


def _create_topics(job: Job) -> None:
    """Create the topics that the connector's config describes."""
    new = [NewTopic(**each) for each in job.topics]
    if not new:
        return
    with Admin(config=dict(job.client)) as admin:
        found = admin.describe_topics([each.name for each in new])
        missing = [each for each in new if isinstance(found[each.name], ApiError)]
        outcomes = admin.create_topics(missing) if missing else {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise PipelineError(f"topic {name} cannot be created: {outcome}")


def _await_topics(job: Job, tell: Tell, stopping: threading.Event) -> None:
    """Wait for the topics of a sink, which may be created after it."""
    if not job.topics_read:
        return
    with Admin(config=dict(job.client)) as admin:
        has_told = False
        while any(isinstance(each, ApiError) for each in admin.describe_topics(job.topics_read).values()):
            if not has_told:
                tell(Report(Event.RUNNING))
                has_told = True
            if stopping.wait(_TOPIC_INTERVAL_S):
                return


def _await_lock(checkpoints: Path, tell: Tell, stopping: threading.Event) -> None:
    """Wait for the application of a service that was killed, which stops by itself."""
    has_told = False
    while (runner := find_runner(checkpoints)) is not None and not stopping.wait(_LOOK_INTERVAL_S):
        if not has_told:
            tell(Report(Event.RESTARTING, f"process {runner} of an earlier service has not ended yet"))
            has_told = True


def _watch(running: PipelineRun, tell: Tell, stopping: threading.Event) -> None:
    """Run the flows, and report what changes."""
    told: Report | None = None
    try:
        running.start()
        while running.check() and not stopping.wait(_LOOK_INTERVAL_S):
            report = _report(running)
            if report is not None and report != told:
                told = report
                tell(report)
        if not stopping.is_set():
            running.check(may_start=False)
    finally:
        running.stop()


def _report(running: PipelineRun) -> Report | None:
    """Return how the flows are doing; None while they start."""
    flows = running.snapshot()
    rows = sum(flow.rows_in for flow in flows)
    waiting = [flow for flow in flows if flow.state == "restarting"]
    if waiting:
        return Report(Event.RESTARTING, f"flow {waiting[0].name}: {waiting[0].cause}", rows)
    if all(flow.state == "running" for flow in flows):
        return Report(Event.RUNNING, rows=rows)
    return None


def _explain(error: Exception) -> Report:
    """Return the last report of an application."""
    cause = error.__cause__ if isinstance(error, FlowError) and isinstance(error.__cause__, Exception) else error
    is_passing = isinstance(error, ClientError | ApiError) or can_pass(cause) or _has_lost_java(error)
    text = str(error) if isinstance(error, SparkSourceError | ClientError | ApiError) else traceback.format_exc()
    return Report(Event.LOST if is_passing else Event.FAILED, text)


def _has_lost_java(error: BaseException | None) -> bool:
    """Return whether an error has its cause in a Java process that was killed, also while it was starting."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    while error is not None:
        if isinstance(error, Py4JNetworkError | ConnectionError) or _NO_JAVA in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def main() -> int:
    """Run the job on the standard input."""
    # Spark and its workers write to the standard output of this process, too, where only reports may be.
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    job = Job.of_line(sys.stdin.readline())
    stopping = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        stopping.set()

    threading.Thread(target=await_end, name="service", daemon=True).start()
    lock = threading.Lock()

    def tell(report: Report) -> None:
        with lock:
            try:
                reports.write(report.to_line())
            except BrokenPipeError:
                stopping.set()  # the service has died

    try:
        run(job, tell, stopping)
    except Exception as error:
        tell(_explain(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
