"""A server with the API of S3 for tests, on loopback: moto's, in a process of its own.

with S3Server() as server:
    s3(f"s3://{server.create_bucket()}/orders", options=server.options)
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from importlib.util import find_spec
from types import TracebackType

import pytest
from tests.port import free_port

START_TIMEOUT_S = 60.0
SECRET = "not-to-be-shown"  # noqa: S105 - of a server that lives as long as a test


class S3Server:
    """A server that keeps its objects in memory until the end of a `with` block."""

    def __init__(self) -> None:
        """Choose a free port."""
        if find_spec("moto") is None:
            pytest.skip("moto, which has a server with the API of S3, is not installed")
        pytest.importorskip("obstore", reason="obstore is not installed")
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """The options of a store."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": "tests",
            "secret_access_key": SECRET,
        }

    def create_bucket(self) -> str:
        """Create a bucket, and return its name."""
        name = f"bucket-{uuid.uuid4().hex[:8]}"
        self._send("PUT", f"/{name}")
        return name

    def require_credentials(self, *, is_required: bool) -> None:
        """Refuse all requests, because no credentials are known, or none of them."""
        self._send("POST", "/moto-api/reset-auth", b"0" if is_required else b"inf")

    def _send(self, method: str, path: str, body: bytes | None = None) -> None:
        headers = {"Content-Type": "text/plain"}
        request = urllib.request.Request(self.endpoint + path, body, headers, method=method)  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310 - of the server of the test

    def __enter__(self) -> S3Server:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline_s:
                    self.__exit__(None, None, None)
                    pytest.fail("moto's server did not start")
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
