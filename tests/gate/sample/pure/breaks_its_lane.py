"""Tests that start more than a pure test may."""

import socket
import subprocess
import sys


def test_starts_a_process() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def test_opens_a_port() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))


def test_starts_nothing() -> None:
    assert True
