"""The GS2 header (RFC 5801), with which the first message of SCRAM and of OAUTHBEARER begins."""

import re
from typing import NamedTuple

_HEADER = re.compile(r"(?P<flag>[ny]|p=[A-Za-z0-9.-]+),(?:a=(?P<authzid>[^,]*))?,")
_ESCAPE = re.compile(r"=(2C|3D)?")


class MalformedMessage(ValueError):
    """A SASL message that breaks its grammar. The text quotes nothing of the message, which may hold secrets."""


class Gs2Header(NamedTuple):
    """The header as it was sent, and the user on whose behalf the client wants to act; empty for itself."""

    text: str
    authzid: str


def split_gs2_header(message: str) -> tuple[Gs2Header, str]:
    """Return the header of a client's first message and the rest, or raise `MalformedMessage`.

    The flag `p` demands that the login is bound to the TLS channel, which no mechanism here can do. The flag `y` says
    that the client could bind it but believes that the broker cannot, and the client is right. Kafka refuses both.
    """
    match = _HEADER.match(message)
    if match is None:
        raise MalformedMessage("the GS2 header is malformed")
    if match["flag"].startswith("p"):
        raise MalformedMessage("the client demands channel binding, which is not supported")
    if match["authzid"] == "":
        raise MalformedMessage("the GS2 header has an empty authorization id")
    authzid = decode_name(match["authzid"]) if match["authzid"] is not None else ""
    return Gs2Header(match[0], authzid), message[match.end() :]


def encode_name(name: str) -> str:
    """Return a user name for a message, in which a comma and an equals sign have another meaning."""
    return name.replace("=", "=3D").replace(",", "=2C")


def decode_name(text: str) -> str:
    """Return the user name of a message, or raise `MalformedMessage`."""
    if not text or "\0" in text or "," in text:
        raise MalformedMessage("the user name is empty or has a NUL")
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    if match[1] is None:
        raise MalformedMessage("the user name has an equals sign that begins neither =2C nor =3D")
    return "," if match[1] == "2C" else "="


def decode_text(message: bytes, size_bytes_max: int) -> str:
    """Return a message as text, or raise `MalformedMessage` if it is too long or is not UTF-8."""
    if len(message) > size_bytes_max:
        raise MalformedMessage(f"the message has {len(message)} bytes; at most {size_bytes_max} are allowed")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise MalformedMessage("the message is not valid UTF-8") from None
