"""The properties file of a worker: the configs of TLS and SASL."""

from pathlib import Path

import pytest

from tailrace.connect.worker_config import WorkerConfigError, read_worker_config


def read(folder: Path, text: str) -> dict[str, str]:
    file = folder / "worker.properties"
    file.write_text(text)
    return read_worker_config(file).client


def test_the_login_of_the_worker_and_of_its_clients_is_one(tmp_path: Path) -> None:
    lines = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.location=ca.pem\n"
    same = "".join(f"{prefix}.{line}\n" for prefix in ("producer", "consumer", "admin") for line in lines.split())
    assert read(tmp_path, lines + same) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.location": "ca.pem",
    }


def test_two_logins_are_refused_without_their_values(tmp_path: Path) -> None:
    with pytest.raises(WorkerConfigError, match=r"line 2: sasl.jaas.config has two values") as caught:
        read(tmp_path, "sasl.jaas.config=first-secret\nproducer.sasl.jaas.config=second-secret\n")
    assert "secret" not in str(caught.value)


def test_other_configs_of_clients_are_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(WorkerConfigError, match=r"producer.linger.ms is not supported"):
        read(tmp_path, "producer.linger.ms=5\n")
