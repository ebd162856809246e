"""The flows of a pipeline as a tree: each under what it reads, with what it writes. Pure."""

from collections.abc import Iterator, Sequence

from tailrace.spark.pipeline.flow import Flow


def draw_flows(flows: Sequence[Flow]) -> list[str]:
    """Return the lines of the tree, which begins with what no flow writes. The branches of a flow are drawn once."""
    readers: dict[str, list[Flow]] = {}
    for flow in flows:
        for place in _read(flow):
            readers.setdefault(place, []).append(flow)
    written = {place for flow in flows for place in _written(flow)}
    drawn: set[str] = set()
    lines: list[str] = []
    roots = [place for place in readers if place not in written]
    for place in [*roots, *(place for place in readers if place in written)]:
        if place in roots or any(flow.name not in drawn for flow in readers[place]):  # flows that feed each other
            lines += [place, *_branches(readers, place, drawn)]
    return lines


def _branches(readers: dict[str, list[Flow]], place: str, drawn: set[str]) -> Iterator[str]:
    flows = readers.get(place, [])
    for index, flow in enumerate(flows):
        is_last = index == len(flows) - 1
        others = [other for other in _read(flow) if other != place]
        also = f" (reads {' and '.join(others)}, too)" if others else ""
        yield f"{'└─' if is_last else '├─'} {flow.name} → {flow.sink}{also}"
        if flow.name in drawn:
            continue
        drawn.add(flow.name)
        for written in _written(flow):
            yield from (f"{'  ' if is_last else '│ '} {line}" for line in _branches(readers, written, drawn))


def _read(flow: Flow) -> list[str]:
    """Return what a flow reads, each topic by itself."""
    return list(dict.fromkeys(place for source in flow.sources for place in _places(source)))


def _written(flow: Flow) -> list[str]:
    return _places(flow.sink)


def _places(endpoint: object) -> list[str]:
    names = getattr(endpoint, "names", None)
    return [str(endpoint)] if names is None else [f"topic {name}" for name in names]
