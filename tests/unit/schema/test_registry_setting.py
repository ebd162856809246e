"""The configs of a registry's client."""

import pickle
from pathlib import Path

import pytest

from tailrace.config.error import ConfigError
from tailrace.schema.setting import RegistrySettings

URL = "http://localhost:8081"
SECRETS = {"basic.auth.user.info": "ann:secret", "ssl.key.password": "hidden"}


def test_the_defaults_need_only_a_url() -> None:
    settings = RegistrySettings(f"{URL}, https://two.example")
    assert settings.url == (URL, "https://two.example")
    assert (settings.credentials, settings.make_tls()) == ((None, None), None)


def test_equal_configs_are_equal_in_every_process() -> None:
    """Workers of Spark keep a client for each set of configs, which reach them as copies."""
    settings = RegistrySettings({"url": URL, **SECRETS})
    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301 - made here
    assert (copy, hash(copy), copy.credentials) == (settings, hash(settings), ("ann", "secret"))
    assert settings != RegistrySettings(URL)


def test_passwords_are_not_shown() -> None:
    settings = RegistrySettings({"url": URL, **SECRETS})
    assert (str(settings), repr(settings)) == (URL, f"RegistrySettings('{URL}')")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "url is missing"),
        ({"url": "localhost"}, "'localhost' is not the URL of a registry"),
        ({"url": "http://ann:secret@localhost"}, "contains a user"),
        ({"url": URL, "ssl.ca.locaton": "a"}, r"did you mean ssl\.ca\.location"),
        ({"url": URL, "basic.auth.user.info": "secret"}, "must be USER:PASSWORD"),
        ({"url": URL, "basic.auth.credentials.source": "URL"}, r"use basic\.auth\.user\.info"),
        ({"url": URL, "ssl.key.location": "key.pem"}, r"needs ssl\.certificate\.location"),
    ],
)
def test_wrong_configs_are_named(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        RegistrySettings(config)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location"])
def test_a_file_that_cannot_be_used_is_named(name: str, tmp_path: Path) -> None:
    file = tmp_path / "file.pem"
    settings = RegistrySettings({"url": URL, name: str(file)})
    with pytest.raises(ConfigError, match=r"file\.pem") as caught:
        settings.make_tls()
    assert caught.value.name == name
