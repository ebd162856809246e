"""Signed and unsecured tokens. The tokens are made by joserfc, or by hand where no library would."""

import base64
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tailrace.security.bearer_token import Token, TokenRefused, TokenRules
from tailrace.security.jwt import InvalidKeySet, KeySet, check_jwt
from tailrace.security.unsecured_token import check_unsecured, unsecured_rules

NOW_S = 1_700_000_000.0
RSA, OTHER_RSA, EC, ED = (
    RSAKey.generate_key(2048),
    RSAKey.generate_key(2048),
    ECKey.generate_key("P-256"),
    OKPKey.generate_key("Ed25519"),
)
CLAIMS = {
    "iss": "https://issuer.example",
    "aud": "kafka",
    "sub": "alice",
    "iat": NOW_S - 10,
    "exp": NOW_S + 60,
    "scope": "read write",
}
RULES = TokenRules(expected_issuer="https://issuer.example", expected_audiences=frozenset({"kafka", "streams"}))


def document(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": keys})


def public(key: RSAKey | ECKey | OKPKey, **more: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), **more}


KEYS = KeySet(document(public(RSA, kid="rsa", use="sig"), public(EC, kid="ec"), public(ED, kid="ed")))


def sign(claims: object, key: Any = RSA, **header: Any) -> str:
    header = {"alg": "RS256", "kid": "rsa", **header}
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
    return jws.serialize_compact(header, payload, key, registry=registry)


def part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def refused(token: str, rules: TokenRules = RULES, keys: KeySet = KEYS) -> TokenRefused:
    with pytest.raises(TokenRefused) as caught:
        check_jwt(token, keys, rules, NOW_S)
    assert caught.value.status == "invalid_token"
    for piece in token.split("."):
        assert len(piece) < 20 or piece not in caught.value.reason
    return caught.value


@pytest.mark.parametrize(
    ("key", "header"),
    [
        (RSA, {"alg": "RS256", "kid": "rsa"}),
        (RSA, {"alg": "PS512", "kid": "rsa"}),
        (EC, {"alg": "ES256", "kid": "ec"}),
        (ED, {"alg": "Ed25519", "kid": "ed"}),
        (RSA, {"alg": "RS256", "kid": None}),
        (RSA, {"typ": "at+jwt", "x5t": "abc", "nonce": "of the issuer", "long": "x" * 2000}),
    ],
)
def test_a_good_token(key: Any, header: dict[str, Any]) -> None:
    header = {name: value for name, value in {"alg": "RS256", "kid": "rsa", **header}.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
    token = jws.serialize_compact(header, json.dumps(CLAIMS), key, registry=registry)
    expected = Token("alice", 1_700_000_060_000, frozenset({"read", "write"}))
    assert check_jwt(token, KEYS, RULES, NOW_S) == expected


def sign_on_a_curve(key: Any, algorithm: str) -> str:
    """Sign without the library, which warns of the older name."""
    signed = f"{part({'alg': algorithm, 'kid': 'ed'})}.{part(CLAIMS)}"
    return f"{signed}.{part(key.get_op_key('sign').sign(signed.encode()))}"


@pytest.mark.parametrize("of_key", [{}, {"alg": "EdDSA"}, {"alg": "Ed25519"}])
@pytest.mark.parametrize("of_token", ["EdDSA", "Ed25519"])
def test_both_names_of_the_algorithm_of_edwards_curves(of_key: dict[str, str], of_token: str) -> None:
    """Keycloak and others sign with `EdDSA`, whose tokens were refused: only its new name was known."""
    keys = KeySet(document(public(ED, kid="ed", **of_key)))
    assert check_jwt(sign_on_a_curve(ED, of_token), keys, RULES, NOW_S).principal == "alice"


def test_the_older_name_is_of_one_curve() -> None:
    curve = OKPKey.generate_key("Ed448")
    keys = KeySet(document(public(curve, kid="ed"), public(RSA, kid="rsa")))
    assert refused(sign_on_a_curve(curve, "EdDSA"), keys=keys).unknown_key_id == "ed"


# --- signatures


def test_a_signature_of_another_key() -> None:
    assert refused(sign(CLAIMS, OTHER_RSA)).reason == "the signature is not valid"


@pytest.mark.parametrize("place", [1, 2])
def test_a_changed_token(place: int) -> None:
    pieces = sign(CLAIMS).split(".")
    pieces[place] = ("B" if pieces[place][0] == "A" else "A") + pieces[place][1:]
    assert refused(".".join(pieces)).reason == "the signature is not valid"


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "", "HS256", "HS512", "Ed448", "RS1", "ES256K", None, 7, ["RS256"]]
)
def test_algorithms_that_are_not_allowed(algorithm: object) -> None:
    for signature in ("", "AAAA"):
        token = f"{part({'alg': algorithm, 'kid': 'rsa'})}.{part(CLAIMS)}.{signature}"
        assert refused(token).reason.startswith(
            ("the algorithm is none of RS256", "the token does not have three parts")
        )


def test_hmac_with_the_public_key_as_secret() -> None:
    """The attack on libraries that choose the algorithm by the header alone."""
    signed = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(CLAIMS)}"
    signature = hmac.digest(RSA.as_pem(private=False), signed.encode(), "sha256")
    token = f"{signed}.{part(signature)}"
    assert "the algorithm is none of" in refused(token).reason


def test_the_header_does_not_bring_its_own_key() -> None:
    token = sign(CLAIMS, OTHER_RSA, jwk=public(OTHER_RSA))
    assert refused(token).reason == "the signature is not valid"


def test_an_algorithm_and_a_key_of_another_type() -> None:
    assert "there is no RS256 key 'ec'" in refused(sign(CLAIMS, RSA, kid="ec")).reason
    bound = KeySet(document(public(RSA, kid="rsa", alg="RS512")))
    assert "there is no RS256 key 'rsa'" in refused(sign(CLAIMS), keys=bound).reason


def test_a_curve_of_another_algorithm() -> None:
    keys = KeySet(document(public(ECKey.generate_key("P-384"), kid="ec")))
    assert "there is no ES256 key" in refused(sign(CLAIMS, EC, alg="ES256", kid="ec"), keys=keys).reason


def test_extensions_of_the_header_are_refused() -> None:
    for header in ({"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}, {"alg": "RS256", "kid": "rsa", "b64": False}):
        assert "extension" in refused(f"{part(header)}.{part(CLAIMS)}.AAAA").reason


# --- keys that rotate


def test_an_unknown_key_is_named_so_that_the_document_can_be_fetched_again() -> None:
    token = sign(CLAIMS, OTHER_RSA, kid="next")
    assert refused(token).unknown_key_id == "next"
    renewed = KeySet(document(public(RSA, kid="rsa"), public(OTHER_RSA, kid="next")))
    assert check_jwt(token, renewed, RULES, NOW_S).principal == "alice"
    assert check_jwt(sign(CLAIMS), renewed, RULES, NOW_S).principal == "alice"


def test_a_bad_signature_does_not_ask_for_a_new_document() -> None:
    assert refused(sign(CLAIMS, OTHER_RSA)).unknown_key_id is None


def test_a_long_key_id_is_not_looked_up() -> None:
    failure = refused(sign(CLAIMS, kid="x" * 1001))
    assert (failure.reason, failure.unknown_key_id) == ("the key id is not text, or is too long", None)


def test_keys_of_no_use_are_left_out() -> None:
    small = {"kty": "RSA", "n": part(b"\xff" * 128), "e": "AQAB"}
    keys = KeySet(
        document(
            public(RSA, kid="rsa"),
            {"kty": "oct", "k": "c2VjcmV0"},
            public(OTHER_RSA, use="enc"),
            public(OTHER_RSA, key_ops=["encrypt"]),
            small,
            {"kty": "RSA"},
            {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
            {"kty": "AKP"},
        )
    )
    assert len(keys) == 1
    assert [text.partition(":")[0] for text in keys.left_out] == [f"key {number}" for number in range(2, 9)]
    assert "2048 bits" in keys.left_out[3]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"keys": {}}', '{"keys": []}', '{"keys": [1]}', '{"keys": [{"kty": "oct"}]}', "[" * 100_000],
)
def test_documents_that_cannot_be_used(text: str) -> None:
    with pytest.raises(InvalidKeySet):
        KeySet(text)


def test_a_document_with_too_many_keys() -> None:
    with pytest.raises(InvalidKeySet, match="101 keys"):
        KeySet(document(*[public(RSA)] * 101))


# --- claims


def with_claims(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW_S - 30}, "expired 30 s ago"),
        ({"exp": None}, "exp is missing"),
        ({"exp": "soon"}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": 1e300}, "exp is not a time"),
        ({"exp": -1}, "exp is not a time"),
        ({"iat": None}, "iat is missing"),
        ({"iat": NOW_S + 31}, "valid in 31 s, by its claim iat"),
        ({"iat": NOW_S + 20, "exp": NOW_S + 10}, "expires before it was issued"),
        ({"nbf": NOW_S + 31}, "valid in 31 s, by its claim nbf"),
        ({"nbf": []}, "nbf is not a time"),
        ({"iss": None}, "the issuer is None"),
        ({"iss": "https://issuer.example/"}, "the issuer is"),
        ({"iss": ["https://issuer.example"]}, "the issuer is"),
        ({"aud": None}, "the audience None"),
        ({"aud": "Kafka"}, "the audience 'Kafka'"),
        ({"aud": []}, "the audience"),
        ({"aud": {"kafka": 1}}, "aud is neither"),
        ({"sub": None}, "sub is missing"),
        ({"sub": "  "}, "sub is missing"),
        ({"sub": 7}, "sub is missing"),
        ({"sub": "alice "}, "sub is 'alice '"),
        ({"sub": "\u00a0alice"}, "sub is"),
        ({"sub": "ali\u200bce"}, "sub is"),
        ({"sub": "alice\u3164"}, "sub is"),
        ({"sub": "alice\x00"}, "sub is"),
        ({"sub": "alice\u202e"}, "sub is"),
        ({"sub": "alice\ud800"}, "not valid JSON"),
        ({"groups": [{"name": "\udfff"}]}, "not valid JSON"),
        ({"scope": 7}, "scope is neither"),
        ({"scope": ["a", 7]}, "scope is neither"),
    ],
)
def test_claims_that_are_refused(changes: dict[str, Any], reason: str) -> None:
    assert reason in refused(sign(with_claims(**changes))).reason


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - 29, "iat": NOW_S - 90},
        {"iat": NOW_S + 29},
        {"nbf": NOW_S + 29},
        {"aud": ["other", "streams"]},
        {"scope": None},
    ],
)
def test_claims_that_are_accepted(changes: dict[str, Any]) -> None:
    assert check_jwt(sign(with_claims(**changes)), KEYS, RULES, NOW_S).principal == "alice"


def test_claims_with_other_names() -> None:
    rules = TokenRules(scope_claim_name="scp", sub_claim_name="client_id")
    token = sign(with_claims(sub=None, client_id="the app", scp=["a", "b  c"]))
    assert check_jwt(token, KEYS, rules, NOW_S) == Token("the app", 1_700_000_060_000, frozenset({"a", "b", "c"}))


def test_only_spaces_separate_scopes() -> None:
    token = sign(with_claims(scope="read\u00a0admin write"))
    assert check_jwt(token, KEYS, RULES, NOW_S).scopes == frozenset({"read\u00a0admin", "write"})


def test_a_missing_scope_has_its_own_status() -> None:
    with pytest.raises(TokenRefused, match="the scope admin is missing") as caught:
        check_jwt(sign(CLAIMS), KEYS, TokenRules(required_scopes=("read", "admin")), NOW_S)
    assert (caught.value.status, caught.value.scope) == ("insufficient_scope", "read admin")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"x",
        b'{"exp": NaN}',
        b'{"exp": Infinity}',
        b'{"sub":"a","sub":"b"}',
        b"[" * 90_000,
        b"\xff",
        "{}".encode("utf-16-le"),
    ],
)
def test_payloads_that_are_no_object(payload: bytes) -> None:
    assert refused(sign(payload)).reason


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b", "a.b.c.d", "a.b.c", f"{part([])}.e30.AAAA", f"{part(b'[' * 3000)}.e30.AAAA", "é.é.é"],
)
def test_texts_that_are_no_token(token: str) -> None:
    assert refused(token).reason


@given(st.text(max_size=100), st.binary(max_size=60), st.binary(max_size=60))
def test_anything_else_is_refused(text: str, header: bytes, payload: bytes) -> None:
    refused(text)
    refused(f"{part(header)}.{part(payload)}.AAAA")


# --- unsecured tokens


def unsecured(claims: object, header: object = None, *, signature: str = "") -> str:
    return f"{part(header or {'alg': 'none'})}.{part(claims)}.{signature}"


def test_an_unsecured_token() -> None:
    token = unsecured({"sub": "alice", "exp": NOW_S + 60, "scope": ["a", "b"]})
    rules = unsecured_rules({"unsecuredValidatorRequiredScope": "a b"})
    assert check_unsecured(token, rules, NOW_S) == Token("alice", 1_700_000_060_000, frozenset("ab"))
    assert "the algorithm is none of" in refused(token + "AAAA").reason


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (unsecured({"sub": "alice"}), "exp is missing"),
        (unsecured({"sub": "alice", "exp": NOW_S}), "expired"),
        (unsecured({"exp": NOW_S + 1}), "sub is missing"),
        (unsecured({"sub": "alice", "exp": NOW_S + 1, "iat": NOW_S + 1}), "becomes valid"),
        (unsecured(CLAIMS, signature="AAAA"), "has a signature"),
        (unsecured(CLAIMS, {"alg": "RS256"}), "has a signature"),
        (unsecured(CLAIMS, {"alg": "NONE"}), "has a signature"),
        ("a.b", "three parts"),
        ("..", "three parts"),
        ("%.%.", "base64url"),
        (unsecured(b"x"), "not valid JSON"),
    ],
)
def test_unsecured_tokens_that_are_refused(token: str, reason: str) -> None:
    with pytest.raises(TokenRefused, match=reason):
        check_unsecured(token, unsecured_rules({}), NOW_S)


def test_the_options_of_unsecured_tokens() -> None:
    options = {"PrincipalClaimName": " user ", "ScopeClaimName": "scp", "AllowableClockSkewMs": "1500"}
    rules = unsecured_rules({f"unsecuredValidator{name}": value for name, value in options.items()})
    assert (rules.sub_claim_name, rules.scope_claim_name, rules.clock_skew_s) == ("user", "scp", 1.5)
    with pytest.raises(ValueError, match="AllowableClockSkewMs"):
        unsecured_rules({"unsecuredValidatorAllowableClockSkewMs": "-1"})
