"""Metrics over HTTP: what Prometheus reads, and what becomes of those who are not Prometheus."""

import http.client
import re
import socket
from pathlib import Path

import pytest
from tests.faults.live import LOOPS, TIMEOUT_S, Live, is_closed, wait_until

import tailrace
from tailrace.base.limits import METRIC_CONNECTIONS_MAX, METRIC_REQUEST_BYTES_MAX
from tailrace.base.metric import Registry
from tailrace.server import server
from tailrace.server.metric_listener import MetricListener
from tailrace.server.metric_text import lines

OPTIONS = {"tailrace.metrics.listener": "127.0.0.1:0", "offsets.topic.num.partitions": "3"}
SAMPLE = re.compile(r'[a-z_][a-z0-9_]*(\{([a-z]+="([^"\\\n]|\\[\\"n])*",?)+\})? ([0-9.e+-]+|\+Inf)')


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def scrape(live: Live) -> dict[str, float]:
    """Every series with its value; the page must be what Prometheus understands."""
    connection = http.client.HTTPConnection("127.0.0.1", live.server.metrics_port, timeout=TIMEOUT_S)
    connection.request("GET", "/metrics")
    with connection.getresponse() as reply:
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        page = reply.read().decode()
    connection.close()
    assert page.endswith("\n")
    samples = [line for line in page.splitlines() if not line.startswith("#")]
    assert [line for line in samples if not SAMPLE.fullmatch(line)] == []
    named = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")]
    assert len(named) == len(set(named)), "all series of a name stand together"
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in samples)}


def peer(live: Live) -> socket.socket:
    assert live.server.metrics_port is not None
    return socket.create_connection(("127.0.0.1", live.server.metrics_port), TIMEOUT_S)


def test_the_lag_of_a_group_can_be_scraped(tmp_path: Path, loop: str) -> None:
    with Live(tmp_path, OPTIONS, loop=loop) as live:
        with tailrace.Producer(live.bootstrap) as producer:
            for _ in range(5):
                producer.send("views", value=b"v")
        with tailrace.Admin(live.bootstrap) as admin:
            assert admin.alter_group_offsets('say "hi"\n', {("views", 0): 2}) == {("views", 0): None}
        found = scrape(live)
        labels = r'consumergroup="say \"hi\"\n"'
        assert found[f'kafka_consumergroup_lag{{{labels},topic="views",partition="0"}}'] == 3
        assert found[f"kafka_consumergroup_lag_sum{{{labels}}}"] == 3
        assert found['kafka_server_group_coordinator_metrics_group_count{protocol="classic"}'] == 1
        assert found["kafka_server_group_coordinator_metrics_offset_commit_count"] == 1
        assert found['tailrace_transaction_aborted_count{cause="timeout"}'] == 0
        assert found['tailrace_transactional_id_count{state="PrepareCommit"}'] == 0


def test_nothing_listens_unless_it_is_asked_for(tmp_path: Path) -> None:
    with Live(tmp_path) as live:
        assert live.server.metrics_port is None


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", 404),
        (b"POST /metrics HTTP/1.1", 405),
        (b"GET /metrics?name=x HTTP/1.0", 200),
        (b"GET /metrics", 400),
        (b"\x16\x03\x01\x02\x00 \xff", 400),
        (b"", 400),
    ],
)
def test_what_is_not_a_scrape_gets_an_answer(tmp_path: Path, request_line: bytes, status: int) -> None:
    with Live(tmp_path, OPTIONS) as live:
        with peer(live) as stranger:
            stranger.sendall(request_line + b"\r\n\r\n")
            answer = b""
            while more := stranger.recv(65536):
                answer += more
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert b"Content-Length: %d\r\n" % len(body) in head


def test_a_head_that_does_not_end_is_cut_off(tmp_path: Path, loop: str) -> None:
    with Live(tmp_path, OPTIONS, loop=loop) as live:
        with peer(live) as stranger:
            stranger.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (METRIC_REQUEST_BYTES_MAX + 1))
            assert is_closed(stranger)
        assert scrape(live)


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> list[MetricListener]:
    """Collect the metric listeners of the servers that a test starts."""
    made: list[MetricListener] = []

    def make(metrics: Registry) -> MetricListener:
        made.append(MetricListener(metrics))
        return made[-1]

    monkeypatch.setattr(server, "MetricListener", make)
    return made


def test_the_slow_and_the_many_are_let_go(tmp_path: Path, loop: str, listeners: list[MetricListener]) -> None:
    with Live(tmp_path, OPTIONS, loop=loop) as live:
        (listener,) = listeners
        listener._request_timeout_s = 60.0
        crowd = [peer(live) for _ in range(METRIC_CONNECTIONS_MAX)]
        wait_until(lambda: len(listener._scrapes) == METRIC_CONNECTIONS_MAX, "all are in")
        with peer(live) as extra:
            assert is_closed(extra)
        crowd.pop().close()
        wait_until(lambda: len(listener._scrapes) < METRIC_CONNECTIONS_MAX, "one has left")
        listener._request_timeout_s = 0.01
        with peer(live) as slow:
            assert is_closed(slow)
        listener._request_timeout_s = 60.0
        assert scrape(live)
        for each in crowd:
            each.close()


def test_a_broker_stops_though_somebody_is_connected(
    tmp_path: Path, loop: str, listeners: list[MetricListener]
) -> None:
    with Live(tmp_path, OPTIONS, loop=loop) as live, peer(live) as idle:
        wait_until(lambda: len(listeners[0]._scrapes) == 1, "it is in")
        live.stop()
        assert is_closed(idle)
        with pytest.raises(ConnectionRefusedError):
            peer(live)


def test_a_metric_is_written_as_prometheus_wants_it() -> None:
    registry = Registry()
    registry.counter("done", "Back\\slash and\nline.").add(2)
    registry.gauge("lag", "Lag.", lambda: [(("a\\b", "0"), 1.5), (("c", "1"), 7)], ("group", "partition"))
    registry.histogram("took_ms", "Time.", (1,)).observe(0.25)
    page = "".join(line for metric in registry.metrics() for line in lines(metric))
    assert page == (
        "# HELP done Back\\\\slash and\\nline.\n"
        "# TYPE done counter\n"
        "done 2\n"
        "# HELP lag Lag.\n"
        "# TYPE lag gauge\n"
        'lag{group="a\\\\b",partition="0"} 1.5\n'
        'lag{group="c",partition="1"} 7\n'
        "# HELP took_ms Time.\n"
        "# TYPE took_ms histogram\n"
        'took_ms_bucket{le="1"} 1\n'
        'took_ms_bucket{le="+Inf"} 1\n'
        "took_ms_sum 0.25\n"
        "took_ms_count 1\n"
    )
