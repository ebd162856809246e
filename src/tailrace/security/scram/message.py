"""The four messages of SCRAM: parsing and building (RFC 5802, section 7).

Each message keeps the text that both sides sign. Kafka's broker signs what it has parsed and written again, which
differs if a message has extensions; here it is the text as it was sent, as the RFC has it.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tailrace.base.security_limits import SCRAM_MESSAGE_BYTES_MAX
from tailrace.security.gs2 import Gs2Header, MalformedMessage, decode_name, decode_text, encode_name, split_gs2_header

TOKEN_EXTENSION: Final = "tokenauth"  # noqa: S105 - the name of an attribute, no secret
"""Kafka's extension: with the value `true`, the name is the id of a delegation token (KIP-48)."""

_ATTRIBUTE = re.compile(r"([A-Za-z]+)=([^\0,]*)")
_NONCE = re.compile(r"[\x21-\x2B\x2D-\x7E]+")
_ITERATIONS = re.compile(r"[1-9][0-9]{0,8}")


class ClientFirst(NamedTuple):
    """The client names itself and gives its nonce."""

    header: Gs2Header
    user: str
    nonce: str
    extensions: Mapping[str, str]
    bare: str

    @property
    def is_token(self) -> bool:
        return self.extensions.get(TOKEN_EXTENSION, "").lower() == "true"


class ServerFirst(NamedTuple):
    """The broker gives the joined nonce, and the salt and iterations of the user."""

    nonce: str
    salt: bytes
    iterations: int
    text: str


class ClientFinal(NamedTuple):
    """The client repeats the nonce and proves that it knows the password."""

    channel_binding: bytes
    nonce: str
    proof: bytes
    without_proof: str


class ServerFinal(NamedTuple):
    """The broker proves that it knows the credential, or says why it refuses."""

    signature: bytes
    error: str | None


# --- building


def make_nonce(random: bytes) -> str:
    """Return random bytes as a nonce; 18 of them or more cannot be guessed."""
    return base64.urlsafe_b64encode(random).decode().rstrip("=")


def client_first(user: str, nonce: str, *, is_token: bool) -> ClientFirst:
    """Return the first message of a client, without an authorization id, as Kafka's client sends it."""
    extensions = {TOKEN_EXTENSION: "true"} if is_token else {}
    bare = ",".join([f"n={encode_name(user)}", f"r={nonce}", *(f"{name}={text}" for name, text in extensions.items())])
    return ClientFirst(Gs2Header("n,,", ""), user, nonce, extensions, bare)


def server_first(nonce: str, salt: bytes, iterations: int) -> ServerFirst:
    return ServerFirst(nonce, salt, iterations, f"r={nonce},s={_base64(salt)},i={iterations}")


def without_proof(header: Gs2Header, nonce: str) -> str:
    return f"c={_base64(header.text.encode())},r={nonce}"


def client_final(without: str, proof: bytes) -> bytes:
    return f"{without},p={_base64(proof)}".encode()


def server_final(signature: bytes) -> bytes:
    return f"v={_base64(signature)}".encode()


def auth_message(first: ClientFirst, answer: ServerFirst, final_without_proof: str) -> bytes:
    """Return the text that both sides sign."""
    return f"{first.bare},{answer.text},{final_without_proof}".encode()


# --- parsing


def parse_client_first(message: bytes) -> ClientFirst:
    header, bare = split_gs2_header(decode_text(message, SCRAM_MESSAGE_BYTES_MAX))
    (user, nonce), extensions = _split(bare, "nr")
    return ClientFirst(header, decode_name(user), _checked_nonce(nonce), extensions, bare)


def parse_server_first(message: bytes) -> ServerFirst:
    text = decode_text(message, SCRAM_MESSAGE_BYTES_MAX)
    (nonce, salt, iterations), _ = _split(text, "rsi")
    if not _ITERATIONS.fullmatch(iterations):
        raise MalformedMessage("the iterations are not a positive number")
    return ServerFirst(_checked_nonce(nonce), _bytes(salt, "salt"), int(iterations), text)


def parse_client_final(message: bytes) -> ClientFinal:
    text = decode_text(message, SCRAM_MESSAGE_BYTES_MAX)
    # The proof comes last, after the extensions, because it covers them.
    without, _, proof = text.rpartition(",p=")
    (binding, nonce), _ = _split(without, "cr")
    return ClientFinal(_bytes(binding, "channel binding"), _checked_nonce(nonce), _bytes(proof, "proof"), without)


def parse_server_final(message: bytes) -> ServerFinal:
    text = decode_text(message, SCRAM_MESSAGE_BYTES_MAX)
    if text.startswith("e="):
        return ServerFinal(b"", text[2:].partition(",")[0])
    (signature,), _ = _split(text, "v")
    return ServerFinal(_bytes(signature, "signature"), None)


def _split(text: str, names: str) -> tuple[list[str], dict[str, str]]:
    """Return the values of the attributes that a message must have, in this order, and its extensions."""
    attributes = []
    for part in text.split(","):
        match = _ATTRIBUTE.fullmatch(part)
        if match is None:
            raise MalformedMessage("the message is not a list of attributes")
        attributes.append((match[1], match[2]))
    if attributes[0][0] == "m":
        raise MalformedMessage("the message has a mandatory extension, and none is supported")
    found = "".join(name for name, _ in attributes[: len(names)])
    if found != names:
        raise MalformedMessage(f"the message does not begin with the attributes {', '.join(names)}")
    extensions = dict(attributes[len(names) :])
    if len(extensions) != len(attributes) - len(names) or not extensions.keys().isdisjoint(names):
        raise MalformedMessage("the message has an attribute twice")
    return [value for _, value in attributes[: len(names)]], extensions


def _checked_nonce(nonce: str) -> str:
    if not _NONCE.fullmatch(nonce):
        raise MalformedMessage("the nonce is empty or has letters that are not allowed")
    return nonce


def _bytes(text: str, name: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedMessage(f"the {name} is not valid base64") from None
    if not data:
        raise MalformedMessage(f"the {name} is empty")
    return data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
