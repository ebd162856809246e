"""Metrics in Prometheus's text format, version 0.0.4, line by line."""

from collections.abc import Iterator

from tailrace.base.metric import Metric

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def lines(metric: Metric) -> Iterator[str]:
    """Yield the description of a metric and a line for each of its values."""
    description = metric.description.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {metric.name} {description}\n"
    yield f"# TYPE {metric.name} {metric.kind}\n"
    name = metric.name
    for suffix, labels, value in metric.samples():
        shown = ",".join([f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels])
        braces = f"{{{shown}}}" if shown else ""
        yield f"{name}{suffix}{braces} {value!r}\n"
