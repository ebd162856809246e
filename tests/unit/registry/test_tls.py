"""Registries that serve HTTPS with certificates of a private CA."""

import ssl
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.certificate import make_certificate
from tests.unit.registry.serving import serving

from tailrace.registry.process import Options, RegistryServer
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.store import Stores


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


def test_a_ca_that_cannot_be_read_is_refused_before_the_registry_listens(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(TlsConfigError, match=r"ca\.pem"):
        RegistryServer(Options("localhost:9092", ca=tmp_path / "ca.pem"))
