"""Kafka's unsecured tokens: JWTs without a signature, which any client can make for any user.

Kafka accepts them by default. Here an option has to allow it, for development alone.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Final

from tailrace.security.bearer_token import Token, TokenRefused, TokenRules, check_claims, parse_json_object

_PREFIX: Final = "unsecuredValidator"
_LOGIN_PREFIX: Final = "unsecuredLogin"
_LIFETIME_S: Final = 3600


def unsecured_rules(options: Mapping[str, str]) -> TokenRules:
    """Return the rules of the options of OAuthBearerLoginModule; raise `ValueError` for a bad one."""
    skew_ms = options.get(f"{_PREFIX}AllowableClockSkewMs", "").strip() or "0"
    if not (skew_ms.isascii() and skew_ms.isdigit()):
        raise ValueError(f"{_PREFIX}AllowableClockSkewMs is not a number of milliseconds")
    return TokenRules(
        clock_skew_s=int(skew_ms) / 1000,
        scope_claim_name=options.get(f"{_PREFIX}ScopeClaimName", "").strip() or "scope",
        sub_claim_name=options.get(f"{_PREFIX}PrincipalClaimName", "").strip() or "sub",
        required_scopes=tuple(options.get(f"{_PREFIX}RequiredScope", "").split()),
        needs_issued_at=False,
    )


def make_unsecured(options: Mapping[str, str], now_s: float) -> str:
    """Return a token from the options `unsecuredLogin*` of OAuthBearerLoginModule; raise `ValueError` for a bad one."""
    claims: dict[str, object] = {}
    for kind, convert in _CLAIMS.items():
        prefix = f"{_LOGIN_PREFIX}{kind}Claim_"
        for name, text in options.items():
            if name.startswith(prefix) and len(name) > len(prefix):
                claims[name.removeprefix(prefix)] = convert(text)
    principal = options.get(f"{_LOGIN_PREFIX}PrincipalClaimName", "").strip() or "sub"
    if not claims.get(principal):
        raise ValueError(f"the option {_LOGIN_PREFIX}StringClaim_{principal} is missing, which names the user")
    lifetime_s = float(options.get(f"{_LOGIN_PREFIX}LifetimeSeconds", "").strip() or _LIFETIME_S)
    claims = {"iat": int(now_s), "exp": int(now_s + lifetime_s), **claims}
    return f"{_encode({'alg': 'none'})}.{_encode(claims)}."


def _encode(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _list(text: str) -> list[str]:
    """Split a list as Kafka has it: its first letter is the separator."""
    return [item for item in text[1:].split(text[:1]) if item] if text else []


_CLAIMS: Final[Mapping[str, Callable[[str], object]]] = {"String": str, "Number": float, "List": _list}


def check_unsecured(token: str, rules: TokenRules, now_s: float) -> Token:
    """Return what a token without a signature says, or raise `TokenRefused`."""
    parts = token.split(".")
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise TokenRefused("the token does not have three parts")
    header = parse_json_object(_decode(parts[0]), "header")
    if header.get("alg") != "none" or parts[2]:
        raise TokenRefused("the token has a signature, and the listener is for unsecured tokens")
    return check_claims(parse_json_object(_decode(parts[1]), "payload"), rules, now_s)


def _decode(part: str) -> bytes:
    try:
        return base64.b64decode(part.rstrip("=") + "=" * (-len(part.rstrip("=")) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenRefused("a part of the token is not valid base64url") from None
