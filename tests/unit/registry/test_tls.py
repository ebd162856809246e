"""Registries that serve HTTPS with certificates of a private CA."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from tests.certificate import make_certificate
from tests.unit.registry.serving import serving

from tailrace.config.error import ConfigError
from tailrace.registry.process import Options, RegistryServer
from tailrace.security import distinguished_name
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.store import Stores
from tailrace.web.server import HttpServer


@pytest.fixture
def tls(options: Options, tmp_path: Path) -> Options:
    """Return options with a certificate of a private CA."""
    make_certificate(tmp_path, "ca", "DNS:ca")
    make_certificate(tmp_path, "registry", "IP:127.0.0.1", issuer="ca")
    return replace(
        options,
        certificate=tmp_path / "registry-ca.pem",
        key=tmp_path / "registry-key.pem",
        ca=tmp_path / "ca-ca.pem",
    )


async def register_at(follower: RegistryServer, context: ssl.SSLContext) -> httpx.Response:
    async with httpx.AsyncClient(verify=context, timeout=60) as client:
        return await client.post(f"{follower.url}/subjects/a/versions", json={"schema": '"int"'})


async def test_a_follower_forwards_to_a_leader_with_a_certificate_of_a_private_ca(tls: Options) -> None:
    async with serving(tls) as leader, serving(tls) as follower:
        assert follower.registry.leader == leader.registry.leader is not None
        context = make_client_context(Stores(truststore_location=str(tls.ca)))
        answer = await register_at(follower if leader.registry.is_leader else leader, context)
        assert (answer.status_code, answer.json()["id"]) == (200, 1)


async def test_a_leader_that_is_not_trusted_is_an_error_that_says_so(tls: Options, tmp_path: Path) -> None:
    make_certificate(tmp_path, "other", "DNS:other")
    other = replace(tls, can_lead=False, ca=tmp_path / "other-ca.pem")
    async with serving(tls), serving(other) as follower:
        answer = await register_at(follower, make_client_context(Stores(truststore_location=str(tls.ca))))
        assert answer.json()["error_code"] == 50003
        assert "CERTIFICATE_VERIFY_FAILED" in answer.json()["message"]


async def test_a_password_is_not_passed_on_to_a_leader_without_tls(tls: Options, options: Options) -> None:
    """A member of the group that is no registry could name itself the leader and be sent the passwords of callers."""
    users = {"ann": "secret-of-ann"}
    async with (
        serving(replace(options, users=users)),
        serving(replace(tls, can_lead=False, users=users)) as follower,
    ):
        context = make_client_context(Stores(truststore_location=str(tls.ca)))
        async with httpx.AsyncClient(verify=context, timeout=60, auth=("ann", "secret-of-ann")) as client:
            answer = await client.post(f"{follower.url}/subjects/a/versions", json={"schema": '"int"'})
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50003)
        assert "has no TLS" in answer.json()["message"]


@pytest.fixture
def open_port(tls: Options) -> Iterator[HttpServer]:
    server = HttpServer("127.0.0.1", 0, certificate=tls.certificate, key=tls.key)
    yield server
    server._listening.close()


async def shown(server: HttpServer, context: ssl.SSLContext) -> str:
    """Return the subject of the certificate that a new connection gets."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return distinguished_name.subject_name(certificate)


@asynccontextmanager
async def served(server: HttpServer) -> AsyncIterator[None]:
    async def watch() -> None:
        await asyncio.Event().wait()

    running = asyncio.create_task(server.run(FastAPI(), watch=watch))
    try:
        yield
    finally:
        server.stop()
        await running


async def test_a_renewed_certificate_is_used_without_a_restart(
    tls: Options, open_port: HttpServer, tmp_path: Path
) -> None:
    """The files were read once, when the service started."""
    context = make_client_context(Stores(truststore_location=str(tls.ca)))
    async with served(open_port):
        assert await shown(open_port, context) == "CN=registry"
        make_certificate(tmp_path, "renewed", "IP:127.0.0.1", issuer="ca")
        (tmp_path / "registry-ca.pem").write_text("nothing of the kind")
        assert await shown(open_port, context) == "CN=registry"
        (tmp_path / "registry-key.pem").write_bytes((tmp_path / "renewed-key.pem").read_bytes())
        (tmp_path / "registry-ca.pem").write_bytes((tmp_path / "renewed-ca.pem").read_bytes())
        assert await shown(open_port, context) == "CN=renewed"


def test_a_certificate_that_cannot_be_used_is_named_before_the_service_listens(tls: Options, tmp_path: Path) -> None:
    (tmp_path / "other-key.pem").write_text("none")
    with pytest.raises(ConfigError, match=r"--key: .*other-key\.pem: there is no private key"):
        RegistryServer(replace(tls, key=tmp_path / "other-key.pem"))


def test_a_ca_that_cannot_be_read_is_refused_before_the_registry_listens(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(TlsConfigError, match=r"ca\.pem"):
        RegistryServer(Options("localhost:9092", ca=tmp_path / "ca.pem"))
