"""Brokers that reach each other over TLS and by a login, with ACLs that only brokers may pass."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.certificate import make_certificate
from tests.logged import logged
from tests.unit.server.replication.cluster import Cluster, running, stored, until

from tailrace.machines.controller.entity import entity_name
from tailrace.machines.controller.record import ConfigKind, ConfigRecord
from tailrace.security.scram.credential import format_credential, make_credential
from tailrace.security.scram.mechanism import SCRAM_SHA_512

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener_security_protocol_map": "INSIDE:SASL_SSL,PLAINTEXT:PLAINTEXT",
    "inter_broker_listener_name": "INSIDE",
    "sasl_enabled_mechanisms": "SCRAM-SHA-512",
    "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512",
    "sasl_jaas_config": f'{SCRAM} required username="broker" password="between us";',
    "authorizer_class_name": STANDARD,
    "super_users": "User:broker;User:ANONYMOUS",
}


def options(folder: Path) -> dict[str, str]:
    make_certificate(folder, "ca", "DNS:ca")
    make_certificate(folder, "broker", "IP:127.0.0.1", "ca")
    return {
        **LISTENERS,
        "ssl_keystore_location": str(folder / "broker.pem"),
        "ssl_truststore_location": str(folder / "ca-ca.pem"),
    }


async def add_user(cluster: Cluster, password: str = "between us") -> None:  # noqa: S107
    credential = await asyncio.to_thread(make_credential, SCRAM_SHA_512, password, b"salt", 4096)
    values = {"SCRAM-SHA-512": format_credential(credential)}
    await cluster.commit(ConfigRecord(ConfigKind.USER, entity_name("broker"), values))


async def test_followers_fetch_over_tls_and_by_a_login(tmp_path: Path) -> None:
    async with running(2, is_governed=False, **options(tmp_path)) as cluster:
        await add_user(cluster)
        await cluster.create([(1, 2)])
        assert (await cluster.produce(1, b"a")).error_code == 0
        await until(lambda: cluster[2].partition().high_watermark == 1)
        assert stored(cluster[1]) == stored(cluster[2])


async def test_brokers_try_until_their_user_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(2, is_governed=False, **options(tmp_path)) as cluster:
        await cluster.create([(1, 2)])
        await until(lambda: "cannot log in to broker 1: " in logged(caplog))
        await add_user(cluster)
        assert (await cluster.produce(1, b"a")).error_code == 0
        await until(lambda: cluster[2].partition().high_watermark == 1)
        assert "between us" not in logged(caplog)


async def test_a_broker_without_the_right_of_a_broker_is_not_served(tmp_path: Path) -> None:
    settings = {**options(tmp_path), "super_users": "User:ANONYMOUS", "replica_lag_time_max_ms": "1000"}
    async with running(2, is_governed=False, **settings) as cluster:
        await add_user(cluster)
        await cluster.create([(1, 2)])
        assert (await cluster.produce(1, b"a")).error_code == 0
        assert cluster.state().isr == (1,)  # the follower could not fetch, and left the ISR
        assert cluster[2].partition().log.log_end_offset == 0


class _Issuer(HTTPServer):
    """An OAuth server that signs a token for each client with a secret."""

    key: Any

    def token(self) -> str:
        jwt = pytest.importorskip("joserfc.jwt")
        claims = {"sub": "broker", "iat": int(time.time()), "exp": int(time.time()) + 600}
        return str(jwt.encode({"alg": "ES256", "kid": "k"}, claims, self.key, algorithms=["ES256"]))


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, _Issuer)
        assert self.headers["Authorization"] == "Basic YnJva2VyOmh1c2g="  # broker:hush
        answer = json.dumps({"access_token": self.server.token(), "expires_in": 600}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: object) -> None:
        """Nothing on the test's output."""


@contextmanager
def oauth_server(keys: Path) -> Iterator[str]:
    """Start an OAuth server, write its public key to a file, and yield its address."""
    jwk = pytest.importorskip("joserfc.jwk")
    server = _Issuer(("127.0.0.1", 0), _Handler)
    server.key = jwk.ECKey.generate_key("P-256", {"kid": "k"})
    keys.write_text(json.dumps({"keys": [server.key.as_dict(private=False)]}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_followers_log_in_with_signed_tokens(tmp_path: Path) -> None:
    """Brokers could make unsigned tokens alone, which the others refuse."""
    keys = tmp_path / "jwks.json"
    with oauth_server(keys) as url:
        settings = {
            **LISTENERS,
            "listener_security_protocol_map": "INSIDE:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "sasl_enabled_mechanisms": "OAUTHBEARER",
            "sasl_mechanism_inter_broker_protocol": "OAUTHBEARER",
            "sasl_jaas_config": f'{OAUTH} required clientId="broker" clientSecret="hush";',
            "sasl_oauthbearer_token_endpoint_url": url,
            "sasl_oauthbearer_jwks_endpoint_url": keys.as_uri(),
        }
        async with running(2, is_governed=False, **settings) as cluster:
            await cluster.create([(1, 2)])
            assert (await cluster.produce(1, b"a")).error_code == 0
            await until(lambda: cluster[2].partition().high_watermark == 1)
            assert stored(cluster[1]) == stored(cluster[2])
