"""The check of a signed JWT against a JWKS document. It needs the extra `security`, for joserfc.

The document comes from the caller, who fetches it and replaces it when keys rotate. A token that names a key which the
document does not have is refused with `unknown_key_id`, so that the caller can fetch the document before its time.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, extract_compact, validate_compact
from joserfc.util import urlsafe_b64decode

from tailrace.base.security_limits import (
    JWT_HEADER_BYTES_MAX,
    JWT_KEY_ID_LENGTH_MAX,
    JWT_KEYS_MAX,
    OAUTH_MESSAGE_BYTES_MAX,
)
from tailrace.security.bearer_token import Token, TokenRefused, TokenRules, check_claims, parse_json_object

Key = RSAKey | ECKey | OKPKey

_RSA_BITS_MIN: Final = 2048
_TYPES: Final[Mapping[str, type[Key]]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
_ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "Ed25519": ("OKP", "Ed25519"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""The algorithms with a public key, and the type and curve of their keys.

`EdDSA` is the older name of `Ed25519` (RFC 8037), which issuers still use; a key with one of the names checks tokens
with either. `none` is not among the algorithms, nor is HMAC: its key would have to be in the document, where it is no
secret.
"""

_OLD_NAMES: Final[Mapping[str, str]] = {"EdDSA": "Ed25519"}


class _Registry(JWSRegistry):
    """The library's checks, with room for headers that carry a certificate's hash and names of their own."""

    max_header_length = JWT_HEADER_BYTES_MAX
    max_payload_length = OAUTH_MESSAGE_BYTES_MAX

    def get_alg(self, name: str) -> Any:
        """Return an algorithm by either name; the library warns of an old one at each token."""
        return super().get_alg(_present_name(name))


_REGISTRY: Final = _Registry(algorithms=list(_ALGORITHMS), strict_check_header=False)


class InvalidKeySet(ValueError):
    """A JWKS document that cannot be used; the broker goes on with the one before."""


class KeySet:
    """The public keys of a JWKS document that can check signatures.

    Keys of other types and uses, and keys that are too weak, are left out, as RFC 7517 asks; `left_out` says which.
    """

    def __init__(self, document: str | bytes) -> None:
        entries = _entries(document)
        self._keys: list[tuple[str | None, str | None, Key]] = []
        self.left_out: list[str] = []
        for number, entry in enumerate(entries, start=1):
            try:
                self._keys.append(_import(entry))
            except (InvalidKeySet, JoseError, ValueError, TypeError, KeyError, Warning) as error:
                detail = error if isinstance(error, InvalidKeySet) else "it is malformed"
                self.left_out.append(f"key {number}: {detail}")
        if not self._keys:
            raise InvalidKeySet("the JWKS document has no key that can check signatures: " + "; ".join(self.left_out))

    def __len__(self) -> int:
        return len(self._keys)

    def keys_for(self, algorithm: str, key_id: str | None) -> Sequence[Key]:
        """Return the keys that may have signed a token with this header; without a key id, all of the type."""
        kind, curve = _ALGORITHMS[algorithm]
        wanted = (None, _present_name(algorithm))
        return [
            key
            for known_id, only, key in self._keys
            if (key_id is None or known_id == key_id) and only in wanted and key.key_type == kind
            if curve is None or key.get("crv") == curve
        ]


def check_jwt(token: str, keys: KeySet, rules: TokenRules, now_s: float) -> Token:
    """Return what a signed token says, or raise `TokenRefused`."""
    algorithm, key_id = _header(token)
    found = keys.keys_for(algorithm, key_id)
    if not found:
        raise TokenRefused(f"there is no {algorithm} key {key_id!r} in the key set", unknown_key_id=key_id)
    payload = _verified_payload(token, found)
    return check_claims(parse_json_object(payload, "payload"), rules, now_s)


def _header(token: str) -> tuple[str, str | None]:
    """Return the algorithm and the key id of a token. Nothing of the header is trusted beyond choosing the key."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise TokenRefused("the token does not have three parts")
    if len(parts[0]) > JWT_HEADER_BYTES_MAX:
        raise TokenRefused("the header of the token is too long")
    header = parse_json_object(_decode_header(parts[0]), "header")
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
        raise TokenRefused(f"the algorithm is none of {', '.join(_ALGORITHMS)}")
    if "crit" in header or "b64" in header:
        raise TokenRefused("the header demands an extension that is not supported")
    if key_id is not None and (not isinstance(key_id, str) or len(key_id) > JWT_KEY_ID_LENGTH_MAX):
        raise TokenRefused("the key id is not text, or is too long")
    return algorithm, key_id


def _decode_header(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part.encode())
    except ValueError:
        raise TokenRefused("the header of the token is not valid base64url") from None


def _verified_payload(token: str, keys: Sequence[Key]) -> bytes:
    try:
        signed = extract_compact(token.encode(), registry=_REGISTRY)
        if any(validate_compact(signed, key, registry=_REGISTRY) for key in keys):
            return signed.payload
    except (JoseError, ValueError, RecursionError) as error:
        raise TokenRefused(f"the token cannot be checked: {type(error).__name__}") from None
    raise TokenRefused("the signature is not valid")


# --- the document


def _entries(document: str | bytes) -> list[Any]:
    try:
        content = json.loads(document)
    except (ValueError, RecursionError):
        raise InvalidKeySet("the JWKS document is not valid JSON") from None
    entries = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise InvalidKeySet("the JWKS document has no list of keys")
    if len(entries) > JWT_KEYS_MAX:
        raise InvalidKeySet(f"the JWKS document has {len(entries)} keys; at most {JWT_KEYS_MAX} are allowed")
    return entries


def _import(entry: Any) -> tuple[str | None, str | None, Key]:
    """Return the id, the only algorithm and the key of an entry, or raise."""
    if not isinstance(entry, dict) or entry.get("kty") not in _TYPES:
        raise InvalidKeySet("its type is none of " + ", ".join(_TYPES))
    if entry.get("use", "sig") != "sig" or "verify" not in entry.get("key_ops", ["verify"]):
        raise InvalidKeySet("it is not for signatures")
    kind = _TYPES[entry["kty"]]
    # Names of the issuer's own, and a private part that was published by mistake, do not matter.
    public = {name: entry[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in entry}
    if kind is RSAKey and _bits(entry["n"]) < _RSA_BITS_MIN:
        raise InvalidKeySet(f"its RSA modulus has fewer than {_RSA_BITS_MIN} bits")
    key_id, algorithm = entry.get("kid"), entry.get("alg")
    return (
        key_id if isinstance(key_id, str) else None,
        _present_name(algorithm) if isinstance(algorithm, str) else None,
        kind.import_key(public),
    )


def _present_name(algorithm: str) -> str:
    return _OLD_NAMES.get(algorithm, algorithm)


def _bits(modulus: str) -> int:
    return int.from_bytes(urlsafe_b64decode(modulus.encode()), "big").bit_length()
