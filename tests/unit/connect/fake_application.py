"""An application without Spark: it does what the topic of its connector says, and leaves a note of each start.

The name of the topic that the connector writes is the script: `fail`, `lose-then-run`, `die-then-run`,
`babble-then-run` or anything else, which runs until it is told to stop. A file in the folder `no-such-folder` fails,
too.
"""

import json
import os
import signal
import sys
from pathlib import Path

import yaml

from tailrace.connect.job import Event, Job, Report


def main() -> None:
    job = Job.of_line(sys.stdin.readline())
    flow = next(iter(yaml.safe_load_all(Path(job.file).read_text())))
    folder = Path(job.file).parent
    starts = folder / "starts.json"
    before = json.loads(starts.read_text()) if starts.exists() else []
    new = starts.with_suffix(".new")
    new.write_text(json.dumps([*before, {"pid": os.getpid(), "source": flow["source"]}]))
    new.replace(starts)
    script = flow["sink"].get("name", "")

    def tell(report: Report) -> None:
        sys.stdout.write(report.to_line())
        sys.stdout.flush()

    if script == "fail" or "no-such-folder" in flow["sink"].get("path", ""):
        tell(Report(Event.FAILED, "flow a: no such column"))
        sys.exit(1)
    if not before and script == "lose-then-run":
        tell(Report(Event.LOST, "lost the brokers"))
        sys.exit(1)
    if not before and script == "die-then-run":
        print("the last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if not before and script == "babble-then-run":
        print("this is no report", flush=True)
    for index, source in enumerate(job.topics):
        print(index, source, file=sys.stderr)
    tell(Report(Event.RUNNING, rows=0 if "nonexistent" in str(flow["source"]) else 3))
    sys.stdin.read()


if __name__ == "__main__":
    main()
