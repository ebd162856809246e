"""The claims of an OAuth token: what a broker demands of them, and what they say.

The signature is checked in `jwt`; tokens without one, which Kafka has for development, are read in `unsecured_token`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_TEXT_MAX: Final = 100
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that show nothing, and that Unicode nevertheless counts as letters, marks or symbols."""


class TokenRefused(Exception):
    """A refused token: the reason for the log, without the token, and the status and scope for the client.

    `unknown_key_id` names a key that the key set does not have, so that the caller can fetch a newer one.
    """

    def __init__(
        self, reason: str, *, status: str = "invalid_token", scope: str | None = None, unknown_key_id: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.scope = scope
        self.unknown_key_id = unknown_key_id


@dataclass(frozen=True, slots=True)
class Token:
    """What a valid token says."""

    principal: str
    expires_at_ms: int
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say, by Kafka's configs `sasl.oauthbearer.*`."""

    expected_issuer: str | None = None
    expected_audiences: frozenset[str] = frozenset()
    """The token must be for one of these; none demands nothing."""
    clock_skew_s: float = 30
    scope_claim_name: str = "scope"
    sub_claim_name: str = "sub"
    required_scopes: tuple[str, ...] = ()
    """Kafka has it for unsecured tokens alone, as the option `unsecuredValidatorRequiredScope`."""
    needs_issued_at: bool = True


def check_claims(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> Token:
    """Return what the claims of a token say, or raise `TokenRefused`."""
    expires_at_s = _check_time(claims, rules, now_s)
    if rules.expected_issuer is not None and claims.get("iss") != rules.expected_issuer:
        raise TokenRefused(f"the issuer is {_shown(claims.get('iss'))} instead of {rules.expected_issuer}")
    if rules.expected_audiences and rules.expected_audiences.isdisjoint(_texts(claims.get("aud"), "aud")):
        raise TokenRefused(f"the audience {_shown(claims.get('aud'))} is none of the expected ones")
    principal = _principal(claims, rules.sub_claim_name)
    scopes = _scopes(claims, rules.scope_claim_name)
    if missing := [scope for scope in rules.required_scopes if scope not in scopes]:
        needed = " ".join(rules.required_scopes)
        raise TokenRefused(f"the scope {missing[0]} is missing", status="insufficient_scope", scope=needed)
    return Token(principal, round(expires_at_s * 1000), scopes)


def _principal(claims: Mapping[str, Any], name: str) -> str:
    """Return the user of a token. Two users of the issuer must not look alike, or become one because blanks are cut.

    Kafka cuts blanks at both ends, and takes every other character.
    """
    principal = claims.get(name)
    if not isinstance(principal, str) or not principal.strip():
        raise TokenRefused(f"the claim {name} is missing or has no text")
    if principal != principal.strip(" ") or not principal.isprintable() or _INVISIBLE.search(principal):
        raise TokenRefused(f"the claim {name} is {_shown(principal)}, which has blanks or invisible characters")
    return principal


def _check_time(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> float:
    """Return when the token expires; raise `TokenRefused` if it has, or if it is not valid yet."""
    expires_at_s = _number(claims, "exp")
    if expires_at_s is None:
        raise TokenRefused("the claim exp is missing")
    issued_at_s = _number(claims, "iat")
    if issued_at_s is None and rules.needs_issued_at:
        raise TokenRefused("the claim iat is missing")
    if now_s - rules.clock_skew_s >= expires_at_s:
        raise TokenRefused(f"the token expired {now_s - expires_at_s:.0f} s ago")
    for name, begins_at_s in (("nbf", _number(claims, "nbf")), ("iat", issued_at_s)):
        if begins_at_s is not None and begins_at_s > now_s + rules.clock_skew_s:
            raise TokenRefused(f"the token becomes valid in {begins_at_s - now_s:.0f} s, by its claim {name}")
    if issued_at_s is not None and expires_at_s <= issued_at_s:
        raise TokenRefused("the token expires before it was issued")
    return expires_at_s


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _TIME_S_MAX:
        raise TokenRefused(f"the claim {name} is not a time")
    return float(value)


_TIME_S_MAX: Final = 2**53 / 1000
"""Times beyond it are no milliseconds that Kafka's protocol could carry; infinity is among them."""


def _scopes(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the scopes, which are one text with spaces in it (RFC 8693) or a list; other blanks separate nothing.

    Kafka takes the text as one scope, blanks and all.
    """
    return frozenset(scope for text in _texts(claims.get(name), name) for scope in text.split(" ") if scope)


def _texts(value: object, name: str) -> list[str]:
    values: list[object] = value if isinstance(value, list) else [] if value is None else [value]
    texts = [text for text in values if isinstance(text, str)]
    if len(texts) != len(values):
        raise TokenRefused(f"the claim {name} is neither text nor a list of texts")
    return texts


def parse_json_object(data: bytes, name: str) -> dict[str, Any]:
    """Return a JSON object of a token, or raise `TokenRefused`; `name` says which part of the token it is."""
    try:
        # By itself `loads` takes UTF-16 too, and halves of surrogate pairs, as bytes and as escapes.
        value = json.loads(data.decode(), parse_constant=_refuse_constant, object_pairs_hook=_without_repetition)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise TokenRefused(f"the {name} of the token is not valid JSON") from None
    if not isinstance(value, dict):
        raise TokenRefused(f"the {name} of the token is not a JSON object")
    return value


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is given twice, because issuer and broker could read different values."""
    if len(names := dict(pairs)) != len(pairs):
        raise ValueError("a name is given twice")
    return names


def _shown(value: object) -> str:
    """Return a claim for the log, capped; claims are signed, but are as long as the issuer likes."""
    text = repr(value)
    return text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "…"
