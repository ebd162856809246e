"""The paths of the services that no router has."""

from pathlib import Path

import pytest
from fastapi import FastAPI

from tailrace.connect.http.app import make_app as make_connect
from tailrace.connect.service import ConnectService, ServiceOptions
from tailrace.registry.election import Member
from tailrace.registry.http.app import make_app as make_registry
from tailrace.registry.service import Registry


@pytest.fixture(params=["registry", "connect"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> FastAPI:
    if request.param == "registry":
        return make_registry(Registry("localhost:9", Member("localhost", 9)))
    options = ServiceOptions({"bootstrap.servers": "localhost:9"}, tmp_path)
    return make_connect(ConnectService(options, "localhost:8083"))


def test_no_page_loads_scripts_of_other_servers(app: FastAPI) -> None:
    """`/docs` ran a script of a public server with the login that the browser had sent to the service."""
    paths = {getattr(route, "path", "") for route in app.routes}
    assert "/openapi.json" in paths
    assert {path for path in paths if path.startswith(("/docs", "/redoc"))} == set()
