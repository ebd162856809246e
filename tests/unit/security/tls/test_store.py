"""Reading stores of keys and certificates: each kind of store, and each way in which it can be wrong."""

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bench.cache import FETCH_HINT
from tests.unit.security.tls.tls_files import PASSWORD, Authority, Issued

from tailrace.security.tls.context import make_client_context, make_server_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.store import Stores, date_problems, read_key_material, read_trusted


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Issued:
    return authority.issue("broker")


def refusal(stores: Stores) -> tuple[str, str]:
    """Return the option and the text of the error, after checking that it shows no secret."""
    with pytest.raises(TlsConfigError) as caught:
        make_server_context(stores, "required" if stores.has_trust else "none")
    shown = str(caught.value) + repr(stores)
    assert PASSWORD not in shown
    assert "PRIVATE KEY-----" not in shown
    return caught.value.option, str(caught.value)


def test_a_pem_file(broker: Issued, tmp_path: Path) -> None:
    path = broker.write_pem(tmp_path / "broker.pem")
    for kind in (None, "PEM", "JKS"):
        make_server_context(Stores(keystore_type=kind, keystore_location=path))


def test_a_pem_file_with_an_encrypted_key(broker: Issued, tmp_path: Path) -> None:
    path = broker.write_pem(tmp_path / "broker.pem", PASSWORD)
    make_server_context(Stores(keystore_location=path, key_password=PASSWORD))
    make_server_context(Stores(keystore_location=path, keystore_password=PASSWORD))
    option, text = refusal(Stores(keystore_location=path))
    assert (option, "the private key is encrypted" in text, path in text) == ("ssl.key.password", True, True)
    option, text = refusal(Stores(keystore_location=path, key_password=PASSWORD + "x"))
    assert (option, "is wrong" in text, path in text) == ("ssl.key.password", True, True)


def test_a_key_in_a_file_of_its_own(broker: Issued, tmp_path: Path) -> None:
    (tmp_path / "certificate.pem").write_text(broker.certificate_pem)
    (tmp_path / "key.pem").write_text(broker.key_pem())
    stores = Stores(keystore_location=str(tmp_path / "certificate.pem"), key_location=str(tmp_path / "key.pem"))
    make_server_context(stores)
    assert stores.files == (tmp_path / "certificate.pem", tmp_path / "key.pem")


@pytest.mark.parametrize("line_end", ["\n", "\\n", " ", ""])
def test_pem_in_options(broker: Issued, line_end: str) -> None:
    chain, key, trusted = (
        text.replace("\n", line_end) for text in (broker.certificate_pem, broker.key_pem(), broker.authority.pem)
    )
    stores = Stores("PEM", keystore_key=key, keystore_certificate_chain=chain, truststore_certificates=trusted)
    make_server_context(stores, "required")
    assert stores.files == ()


def test_pem_in_options_with_an_encrypted_key(broker: Issued) -> None:
    key = broker.key_pem(PASSWORD)
    stores = Stores(keystore_key=key, keystore_certificate_chain=broker.certificate_pem, key_password=PASSWORD)
    make_server_context(stores)


def test_a_key_encrypted_in_the_old_way_of_openssl(broker: Issued, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip(f"openssl is not installed; {FETCH_HINT}")
    command = ["openssl", "ec", "-aes256", "-passout", f"pass:{PASSWORD}"]
    key = subprocess.run(command, input=broker.key_pem(), text=True, check=True, capture_output=True).stdout
    assert "DEK-Info" in key
    stores = Stores(keystore_key=key, keystore_certificate_chain=broker.certificate_pem, key_password=PASSWORD)
    make_server_context(stores)
    assert refusal(Stores(keystore_key=key, keystore_certificate_chain=broker.certificate_pem))[0] == "ssl.key.password"


def test_a_pkcs12_file(broker: Issued, tmp_path: Path) -> None:
    path = broker.write_pkcs12(tmp_path / "broker.p12")
    for kind in (None, "PKCS12", "JKS", "pkcs12"):
        make_server_context(Stores(keystore_type=kind, keystore_location=path, keystore_password=PASSWORD))
    material = read_key_material(Stores(keystore_location=path, keystore_password=PASSWORD))
    assert material is not None
    assert len(material.chain) == 2


def test_a_pkcs12_file_of_trusted_certificates_from_keytool(authority: Authority, tmp_path: Path) -> None:
    if shutil.which("keytool") is None:
        pytest.skip("keytool, a part of Java, is not installed")
    (tmp_path / "ca.pem").write_text(authority.pem)
    store = tmp_path / "trust.p12"
    command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "ca.pem")]
    command += ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD]
    subprocess.run(command, check=True, capture_output=True)
    trusted = read_trusted(Stores(truststore_location=str(store), truststore_password=PASSWORD))
    assert trusted is not None
    assert len(trusted) == 1
    option, text = "", ""
    with pytest.raises(TlsConfigError) as caught:
        make_client_context(Stores(truststore_location=str(store), truststore_password="wrong"))
    option, text = caught.value.option, str(caught.value)
    assert (option, "the password is wrong" in text) == ("ssl.truststore.password", True)


def test_a_pkcs12_file_with_a_wrong_password(broker: Issued, tmp_path: Path) -> None:
    path = broker.write_pkcs12(tmp_path / "broker.p12")
    option, text = refusal(Stores(keystore_location=path, keystore_password="wrong"))
    assert (option, path in text, "the password is wrong" in text) == ("ssl.keystore.password", True, True)
    option, text = refusal(Stores(keystore_location=path))
    assert (option, "the password is missing" in text) == ("ssl.keystore.password", True)


def test_a_jks_file_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "broker.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\0")
    for kind in (None, "JKS", "PKCS12"):
        option, text = refusal(Stores(keystore_type=kind, keystore_location=str(path)))
        assert option == "ssl.keystore.location"
        assert "this is a JKS store" in text
        assert f"keytool -importkeystore -srckeystore {path}" in text


def test_what_is_not_a_store(broker: Issued, tmp_path: Path) -> None:
    other = broker.authority.issue("other")
    files = {
        "missing.pem": None,
        "empty.pem": "",
        "key-only.pem": broker.key_pem(),
        "certificate-only.pem": broker.certificate_pem,
        "mismatch.pem": broker.key_pem() + other.certificate_pem,
        "damaged.pem": broker.key_pem() + broker.certificate_pem.replace("\nM", "\nA", 1),
        "noise.pem": "nothing of the kind",
    }
    found = {}
    for name, text in files.items():
        if text is not None:
            (tmp_path / name).write_text(text)
        option, problem = refusal(Stores("PEM", str(tmp_path / name)))
        assert option == "ssl.keystore.location"
        assert str(tmp_path / name) in problem
        found[name] = problem.removeprefix(f"{tmp_path / name}: ")
    assert found["damaged.pem"].startswith("certificate 1 is damaged")
    del found["damaged.pem"]
    assert found == {
        "missing.pem": "the file does not exist",
        "empty.pem": "the file is empty",
        "key-only.pem": "there is no certificate in it",
        "certificate-only.pem": "there is no private key in it",
        "mismatch.pem": "the private key does not match the first certificate",
        "noise.pem": "the file is neither PEM nor a PKCS12 store",
    }


def test_stores_that_contradict_themselves(broker: Issued, tmp_path: Path) -> None:
    path = broker.write_pem(tmp_path / "broker.pem")
    assert refusal(Stores("BCFKS", path)) == (
        "ssl.keystore.type",
        "stores of type BCFKS are not supported; use PEM or PKCS12",
    )
    assert "says PKCS12" in refusal(Stores("PKCS12", path))[1]
    assert "holds no PEM" in refusal(Stores("PEM", broker.write_pkcs12(tmp_path / "broker.p12")))[1]
    assert "given twice" in refusal(Stores(keystore_location=path, keystore_key=broker.key_pem()))[1]
    assert refusal(Stores(keystore_key=broker.key_pem()))[0] == "ssl.keystore.certificate.chain"
    assert refusal(Stores())[0] == "ssl.keystore.location"


def test_expired_certificates_are_named_and_used(authority: Authority, tmp_path: Path) -> None:
    expired = authority.issue("old", expired=True)
    path = expired.write_pem(tmp_path / "old.pem")
    stores = Stores(keystore_location=path, truststore_certificates=authority.pem)
    make_server_context(stores, "required")
    (line,) = date_problems(stores, datetime.now(UTC))
    assert line.startswith(f"{path}: the certificate CN=old expired at 20")
    soon = date_problems(stores, datetime(2000, 1, 1, tzinfo=UTC))
    assert [("is valid from" in line) for line in soon] == [True, True]
