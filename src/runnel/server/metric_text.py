"""Metrics in Prometheus's text format, version 0.0.4, line by line."""

from collections.abc import Iterator

from runnel.base.metric import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def lines(metric: Metric) -> Iterator[str]:
    """What a metric is, and a line for each of its values."""
    description = metric.description.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {metric.name} {description}\n"
    yield f"# TYPE {metric.name} {metric.kind}\n"
    for suffix, labels, value in metric.samples():
        shown = ",".join(f'{name}="{_escape(text)}"' for name, text in labels)
        braces = f"{{{shown}}}" if shown else ""
        yield f"{metric.name}{suffix}{braces} {_number(value)}\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(value)
