"""The tree of flows that feed each other."""

from typing import Any

from tailrace.pipeline import Flow, flow, topic
from tailrace.spark.pipeline.graph import draw_flows


def declared(name: str, source: Any, sink: Any) -> Flow:
    def function(*frames: Any) -> Any:
        return frames[0]

    function.__name__ = name
    return flow(source=source, sink=sink)(function)


def test_a_flow_stands_under_what_it_reads_and_before_what_it_writes() -> None:
    views, users = topic("views"), topic("users")
    flows = [
        declared("counts", views, topic("counts")),
        declared("named", [views, users], topic("named")),
        declared("alerts", topic("counts"), topic("alerts")),
        declared("both", topic("alerts", "named"), topic("all")),
    ]
    assert "\n".join(draw_flows(flows)) == (
        "topic views\n"
        "├─ counts → topic counts\n"
        "│  └─ alerts → topic alerts\n"
        "│     └─ both → topic all (reads topic named, too)\n"
        "└─ named → topic named (reads topic users, too)\n"
        "   └─ both → topic all (reads topic alerts, too)\n"
        "topic users\n"
        "└─ named → topic named (reads topic views, too)"
    )


def test_flows_in_a_circle_are_drawn_once() -> None:
    flows = [declared("there", topic("a"), topic("b")), declared("back", topic("b"), topic("a"))]
    assert draw_flows(flows) == ["topic a", "└─ there → topic b", "   └─ back → topic a", "      └─ there → topic b"]
