"""The credentials of users and delegation tokens in the image."""

import base64
import re

import pytest
from tests.logged import logged, own_records
from tests.unit.sample import NOW_MS, ManualClock

from tailrace.base import security_limits
from tailrace.base.limits import REJECTION_LINES_MAX
from tailrace.machines.controller.entity import entity_name
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import ConfigKind, ConfigRecord
from tailrace.machines.controller.security_record import TokenRecord
from tailrace.runtime.controller.token_index import token_hmac
from tailrace.security.scram.credential import Decoys, format_credential, make_credential
from tailrace.security.scram.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, Mechanism
from tailrace.server.security import credential_store
from tailrace.server.security.credential_store import ImageCredentials

KEY = "the key of tokens"


@pytest.fixture
def image() -> ClusterImage:
    image = ClusterImage()
    text = format_credential(make_credential(SCRAM_SHA_256, "secret", b"salt", 4096))
    image.replay(ConfigRecord(ConfigKind.USER, entity_name("al/ice"), {"SCRAM-SHA-256": text}))
    image.replay(ConfigRecord(ConfigKind.USER, entity_name("broken"), {"SCRAM-SHA-256": "salt=x"}))
    image.replay(TokenRecord("t1", "User:alice", "User:alice", (), NOW_MS, NOW_MS + 1000, NOW_MS + 9000))
    return image


def credentials(image: ClusterImage, *, clock: ManualClock | None = None, key: str | None = KEY) -> ImageCredentials:
    return ImageCredentials(SCRAM_SHA_256, image, clock or ManualClock(), key)


def test_a_user_has_a_credential_for_a_mechanism(image: ClusterImage) -> None:
    found = credentials(image).user("al/ice")
    assert found == make_credential(SCRAM_SHA_256, "secret", b"salt", 4096)
    assert credentials(image).user("nobody") is None
    assert ImageCredentials(SCRAM_SHA_512, image, ManualClock(), KEY).user("al/ice") is None


def test_a_damaged_credential_is_told_without_its_text(image: ClusterImage, caplog: pytest.LogCaptureFixture) -> None:
    assert credentials(image).user("broken") is None
    line = logged(caplog)
    assert line.startswith("user broken cannot log in by SCRAM-SHA-256: ")
    assert "salt=x" not in line


def test_a_client_gets_only_so_many_lines_about_a_damaged_credential(
    image: ClusterImage, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt wrote one, and a client that has not logged in can try as often as it likes."""
    store = credentials(image)
    for _ in range(REJECTION_LINES_MAX + 5):
        assert store.user("broken") is None
    assert len(own_records(caplog)) == REJECTION_LINES_MAX


def test_the_password_of_a_token_is_its_hmac(image: ClusterImage) -> None:
    found = credentials(image).token("t1")
    assert found is not None
    assert (found.owner, found.expires_at_ms) == ("alice", NOW_MS + 1000)
    password = base64.b64encode(token_hmac(KEY, "t1")).decode()
    assert found.credential == make_credential(SCRAM_SHA_256, password, found.credential.salt, 4096)


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_the_challenge_of_a_token_looks_like_that_of_an_unknown_one(image: ClusterImage, mechanism: Mechanism) -> None:
    """The salt of a token had another length than that of a decoy, so a client could tell which ids exist."""
    found = ImageCredentials(mechanism, image, ManualClock(), KEY).token("t1")
    assert found is not None
    decoy = Decoys(b"secret").credential(mechanism, "unknown")
    for credential in (found.credential, decoy):
        assert re.fullmatch(rb"[0-9a-z]{26}", credential.salt)
    assert found.credential.iterations == decoy.iterations


def test_a_token_that_is_unknown_or_expired_has_none(image: ClusterImage) -> None:
    clock = ManualClock()
    store = credentials(image, clock=clock)
    assert store.token("t2") is None
    assert credentials(image, key=None).token("t1") is None
    clock.time_ms += 999
    assert store.token("t1") is not None
    clock.time_ms += 1
    assert store.token("t1") is None


def test_only_so_many_derived_credentials_are_kept(image: ClusterImage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_store, "TOKEN_CREDENTIALS_KEPT_MAX", 2)
    assert security_limits.TOKEN_CREDENTIALS_KEPT_MAX > 2
    store = credentials(image)
    for number in range(4):
        image.replay(TokenRecord(f"x{number}", "User:alice", "User:alice", (), NOW_MS, NOW_MS + 1000, NOW_MS + 9000))
        assert store.token(f"x{number}") is not None
    assert list(store._derived) == ["x2", "x3"]
