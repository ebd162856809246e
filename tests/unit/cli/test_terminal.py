"""What a person at a terminal sees: tables and colour, where a pipe gets plain lines."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import tailrace
from tailrace.cli.record_format import terminal_format
from tailrace.records.record import Record
from tailrace.testing import Broker

TAILRACE = [sys.executable, "-m", "tailrace.cli.main"]


def at_terminal(broker: Broker, *arguments: str) -> str:
    """What a command shows on a terminal of its own."""
    master, slave = pty.openpty()
    environment = os.environ | {
        "TAILRACE_BOOTSTRAP_SERVER": broker.bootstrap_servers,
        "TERM": "xterm",
        "COLUMNS": "100",
    }
    process = subprocess.Popen([*TAILRACE, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # Linux says so when the other side has closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(master)
    assert process.wait(60) == 0, shown
    return shown.decode()


def test_topics_are_shown_as_tables(tailrace_broker: Broker) -> None:
    tailrace_broker.create_topic("terminal", partitions=2, config={"retention.ms": "1234"})
    listed = at_terminal(tailrace_broker, "topic", "list")
    assert "┃" in listed
    assert "replication factor" in listed
    described = at_terminal(tailrace_broker, "topic", "describe", "terminal")
    assert "leader" in described
    assert "1234" in described
    assert at_terminal(tailrace_broker, "topic", "list", "--json").lstrip().startswith("[")


def test_transactions_are_shown_as_tables(tailrace_broker: Broker) -> None:
    tailrace_broker.create_topic("terminal-transactions")
    with tailrace.Producer(tailrace_broker.bootstrap_servers, transactional_id="at-a-terminal") as producer:
        producer.begin_transaction()
        producer.send("terminal-transactions", b"open").result(60)
        assert "│ at-a-terminal" in at_terminal(tailrace_broker, "transaction", "list")
        shown = at_terminal(tailrace_broker, "transaction", "producers", "terminal-transactions")
        assert "start offset" in shown
        assert "there are no hanging transactions" in at_terminal(tailrace_broker, "transaction", "list", "--hanging")


def test_progress_is_shown_and_records_have_colours(tailrace_broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("key:value\n" * 10)
    tailrace_broker.create_topic("coloured")
    shown = at_terminal(tailrace_broker, "produce", "coloured", str(tmp_path / "lines"), "--key-separator", ":")
    assert "10 records written to coloured" in shown
    shown = at_terminal(tailrace_broker, "consume", "coloured", "--from", "beginning", "--count", "1")
    assert "\x1b[36mkey\x1b[0m value" in shown


def test_a_record_cannot_play_with_the_terminal() -> None:
    record = Record(3, int(time.time() * 1000), b"\x1b[2J", b"a\x07\xff\tb", (("h", None),))
    shown = terminal_format("t", 0, record).decode()
    assert "\\x1b[2J" in shown
    assert "a\\x07\\xff\tb" in shown
    assert "h=null" in shown


def test_a_timestamp_beyond_the_calendar_is_shown_as_a_number() -> None:
    assert str(2**62) in terminal_format("t", 0, Record(0, 2**62, None, None, ())).decode()
