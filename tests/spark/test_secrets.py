"""Passwords and keys in the options of a query: its tasks get them, and nothing shows them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.conftest import CHECKOUT, require_spark
from tests.unit.client.security.secure_broker import JAAS, PASSWORD, start_secure_broker
from tests.unit.security.tls.tls_files import PASSWORD as KEY_PASSWORD

import tailrace


@pytest.mark.slow
def test_a_query_over_tls_with_a_login_shows_no_secret(tmp_path: Path) -> None:
    """A batch and a stream copy a topic. Plans, progress, web pages, events, checkpoint and logs are searched."""
    require_spark()
    (tmp_path / "keys").mkdir()
    with start_secure_broker(tmp_path / "keys") as broker:
        alice = broker.authority.issue("alice")
        key = alice.key_pem(KEY_PASSWORD)
        options = {
            "bootstrap.servers": broker.address("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": JAAS["SCRAM-SHA-256"],
            "ssl.truststore.certificates": broker.authority.pem,
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": alice.certificate_pem,
            "ssl.key.password": KEY_PASSWORD,
        }
        with tailrace.Admin(broker.address("PLAINTEXT")) as admin:
            admin.create_topics([tailrace.NewTopic("from", 1, 1), tailrace.NewTopic("to", 1, 1)])
        work = tmp_path / "work"
        work.mkdir()
        (work / "events").mkdir()
        (work / "options.json").write_text(json.dumps(options))
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.secure_flow", str(work)],
            cwd=work,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)])},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert "copied 1" in done.stdout, done.stderr[-4000:]
    shown = {"output": done.stdout, "log": done.stderr}
    files = [path for path in work.rglob("*") if path.is_file() and path.name != "options.json"]
    shown |= {str(path.relative_to(work)): path.read_bytes().decode("latin-1") for path in files}
    assert any(name.startswith("events") for name in shown)
    assert any(name.startswith("checkpoint") for name in shown)
    secrets = {"password": PASSWORD, "password of the key": KEY_PASSWORD, "key": key.splitlines()[2]}
    found = {(place, name) for place, text in shown.items() for name, secret in secrets.items() if secret in text}
    assert found == set()
