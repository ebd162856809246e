"""Metrics of the registry in the text format of Prometheus."""

from collections.abc import Iterator

from tailrace.registry.service import Registry
from tailrace.web.counter import RequestCounters


def render(registry: Registry, counters: RequestCounters) -> str:
    """Return all metrics."""
    return "".join(f"{line}\n" for line in _lines(registry, counters))


def _lines(registry: Registry, counters: RequestCounters) -> Iterator[str]:
    state = registry.state
    live = state.subjects(":*:")
    versions = [
        entry
        for subject in state.subjects(":*:", with_deleted=True)
        for entry in state.versions(subject, with_deleted=True)
    ]
    yield "# TYPE tailrace_registry_is_leader gauge"
    yield f"tailrace_registry_is_leader {int(registry.is_leader)}"
    yield "# TYPE tailrace_registry_subjects gauge"
    yield f"tailrace_registry_subjects {len(live)}"
    yield "# TYPE tailrace_registry_versions gauge"
    yield f'tailrace_registry_versions{{deleted="false"}} {sum(not each.is_deleted for each in versions)}'
    yield f'tailrace_registry_versions{{deleted="true"}} {sum(each.is_deleted for each in versions)}'
    yield "# TYPE tailrace_registry_position gauge"
    yield f"tailrace_registry_position {registry.store.position}"
    yield from counters.lines("tailrace_registry")
