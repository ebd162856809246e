"""Metrics of the Connect service in the text format of Prometheus."""

from collections import Counter
from collections.abc import Iterator

from tailrace.connect.service import ConnectService
from tailrace.web.counter import RequestCounters


def render(service: ConnectService, counters: RequestCounters) -> str:
    """Return all metrics."""
    return "".join(f"{line}\n" for line in _lines(service, counters))


def _lines(service: ConnectService, counters: RequestCounters) -> Iterator[str]:
    names = service.state.names
    phases = Counter(status.phase for name in names if (status := service.board.connector(name)) is not None)
    tasks = Counter(status.phase for name in names for status in service.board.tasks(name).values())
    yield "# TYPE tailrace_connect_generation gauge"
    yield f"tailrace_connect_generation {service.store.generation}"
    for kind, counts in (("connectors", phases), ("tasks", tasks)):
        yield f"# TYPE tailrace_connect_{kind} gauge"
        for phase, count in sorted(counts.items()):
            yield f'tailrace_connect_{kind}{{state="{phase}"}} {count}'
    yield from counters.lines("tailrace_connect")
