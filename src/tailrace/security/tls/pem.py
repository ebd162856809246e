r"""PEM texts: finding the keys and certificates in them.

A PEM text in an option of a properties file often has lost its line ends: backslashes at the ends of lines join them,
and other tools write `\n` as two letters. Such a text is split again, as Kafka does it.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_CERTIFICATES: Final = ("CERTIFICATE", "X509 CERTIFICATE")
_KEY_END: Final = "PRIVATE KEY"
_LINE_LENGTH: Final = 64


class PemBlock(NamedTuple):
    """One key or certificate. Its body is as it was, so that it has the headers of an encrypted key."""

    label: str
    body: str

    @property
    def is_certificate(self) -> bool:
        return self.label in _CERTIFICATES

    @property
    def is_key(self) -> bool:
        return self.label.endswith(_KEY_END)

    @property
    def is_encrypted(self) -> bool:
        """Whether a key needs a password."""
        return self.label.startswith("ENCRYPTED") or "ENCRYPTED" in self.body.partition("\n\n")[0]

    @property
    def text(self) -> str:
        """The block with line ends where OpenSSL demands them."""
        body = self.body.strip()
        if ":" not in body:
            letters = "".join(body.split())
            body = "\n".join(letters[at : at + _LINE_LENGTH] for at in range(0, len(letters), _LINE_LENGTH))
        return f"-----BEGIN {self.label}-----\n{body}\n-----END {self.label}-----\n"

    def decode(self) -> bytes:
        """Return a certificate in DER; raise `ValueError` if it is damaged."""
        try:
            return base64.b64decode("".join(self.body.split()), validate=True)
        except binascii.Error:
            raise ValueError("it is not valid base64") from None

    def __repr__(self) -> str:
        return f"PemBlock({self.label})"


def parse_pem(text: str) -> list[PemBlock]:
    """Return the keys and certificates of a text, in their order; text between them is left out."""
    lines = text.replace("\\n", "\n").replace("\r\n", "\n")
    return [PemBlock(match[1], match[2]) for match in _BLOCK.finditer(lines)]


def is_pem(data: bytes) -> bool:
    """Return whether a file holds PEM; text may stand before its first block."""
    return b"-----BEGIN " in data
