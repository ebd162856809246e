"""The subject of a client's certificate as Java prints it, which is the name of a TLS client in Kafka's ACLs.

Java follows RFC 2253: the last part comes first, nine attributes have short names, and every other attribute is its
object id with the value in hexadecimal DER. OpenSSL and Python print other texts, so the subject is read from the DER.
"""

from typing import Final

from tailrace.security.der import SEQUENCE, MalformedCertificate, certificate_fields, content_of, elements

_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_ENCODINGS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # T61String
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1E: "utf-16-be",  # BMPString
}
_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = ',=+<>#;"\\'
_BLANK: Final = " \r"


def subject_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER, as Java's `X500Principal.getName` prints it."""
    return format_name(certificate_fields(certificate).subject)


def format_name(name: bytes) -> str:
    """Return a name in DER as Java prints it; empty if it has no parts."""
    (sequence,) = elements(name, 1)
    parts = [_part(content_of(part, _SET)) for part in elements(content_of(sequence, SEQUENCE))]
    return ",".join(reversed(parts))


def _part(content: bytes) -> str:
    return "+".join(_attribute(content_of(element, SEQUENCE)) for element in elements(content))


def _attribute(content: bytes) -> str:
    object_id, value = elements(content, 2)
    identifier = _object_id(content_of(object_id, _OBJECT_ID))
    name, encoding = _NAMES.get(identifier), _ENCODINGS.get(value.tag)
    if name is None or encoding is None:
        return f"{name or identifier}=#{value.encoded.hex()}"
    try:
        return f"{name}={_escape(value.content.decode(encoding))}"
    except UnicodeDecodeError:
        raise MalformedCertificate(f"the attribute {name} of the subject is not text") from None


def _escape(text: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in _ESCAPED else letter for letter in text).replace("\0", "\\00")
    inner = escaped.strip(_BLANK)
    if not inner:
        return "".join(f"\\{letter}" for letter in escaped)
    before, _, after = escaped.partition(inner)
    return "".join(f"\\{letter}" for letter in before) + inner + "".join(f"\\{letter}" for letter in after)


def _object_id(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise MalformedCertificate("an object id is cut off")
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
